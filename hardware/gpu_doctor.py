"""What a search on NVIDIA's GPUs needs beside what every search needs."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..schemas import Accelerator, DeviceProfile, InputError, Pool, PoolError
from .checks import Check, Status
from .harness.inspection import profilers_for
from .languages._cubin import find_tool
from .languages._cuda_loader import NVRTC
from .machine.gpu_peaks import installed
from .machine.lease import Lease
from .machine.nvml import InstalledGpus, find_devices, read_clocks
from .platforms.nvidia import chosen

WITHOUT_COUNTERS = "diagnoses then rest on times, launches and the roofline"
WITHOUT_TRACE = "diagnoses then know no launch gaps and no numbers of kernels"


def examine_gpu(pool: Pool, home: Path) -> list[Check]:
    """Look at driver, devices, torch, Triton, NVRTC and what each profiler is permitted; takes about 20 seconds."""
    try:
        gpu_facts = find_devices()
    except PoolError as error:
        way_out = "without a GPU this machine can compile for the pool, not time (`swarm --roles compiler=1`)"
        return [Check("gpu", Status.fail, str(error), way_out), *_compilers()]
    return [
        _devices(pool, gpu_facts),
        _clocks(pool, gpu_facts),
        _torch(),
        *_compilers(),
        *_profilers(pool, gpu_facts, home),
    ]


def _devices(pool: Pool, gpu_facts: InstalledGpus) -> Check:
    try:
        devices = chosen(gpu_facts.accelerators, pool, os.environ)
    except PoolError as error:
        return Check("gpu", Status.fail, str(error), "use a pool whose target this machine has")
    first = devices[0]
    detail = f"{len(devices)} x {first.name}, {first.target}, {first.memory_bytes / 1e9:.0f} GB"
    return Check("gpu", Status.ok, f"{detail}; driver {gpu_facts.driver}, CUDA up to {gpu_facts.cuda}")


def _clocks(pool: Pool, gpu_facts: InstalledGpus) -> Check:
    try:
        device = chosen(gpu_facts.accelerators, pool, os.environ)[0]
        now = read_clocks(device.uuid)
    except PoolError as error:
        return Check("gpu clocks", Status.warn, str(error), "throttling will go unnoticed")
    detail = f"{now.clock_mhz} of {device.max_clock_mhz} MHz, {now.power_watts:.0f} of {device.power_limit_watts:.0f} W"
    if not now.throttled:
        return Check("gpu clocks", Status.ok, f"{detail}, {now.temperature_c} degrees")
    return Check("gpu clocks", Status.warn, f"{detail}, held down by {', '.join(now.throttled)}", "let it cool or rest")


def _torch() -> Check:
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
    output = _last_line([sys.executable, "-P", "-c", code])
    if output.endswith("True"):
        return Check("torch on the gpu", Status.ok, output.rpartition(" ")[0].replace(" ", ", CUDA "))
    return Check("torch on the gpu", Status.fail, output, "`pip install torch` (the CUDA build that the driver runs)")


def _compilers() -> list[Check]:
    triton = installed("triton")
    triton_check = (
        Check("triton", Status.ok, triton) if triton else _missing("triton", "not installed", "`pip install triton`")
    )
    return [triton_check, _c_compiler(), _nvrtc(), _tool("cuobjdump", find_tool)]


def _c_compiler() -> Check:
    path = shutil.which(os.environ.get("CC") or "gcc") or shutil.which("clang")
    if path:
        return Check("C compiler", Status.ok, path)
    return _missing("C compiler", "none", "`apt-get install gcc`: Triton builds its launcher with it")


def _nvrtc() -> Check:
    code = f"{NVRTC}\nlibrary = _nvrtc_library()\na, b = ctypes.c_int(), ctypes.c_int()\n"
    code += "library.nvrtcVersion(ctypes.byref(a), ctypes.byref(b)); print(f'{a.value}.{b.value}')"
    output = _last_line([sys.executable, "-P", "-c", code]).removeprefix("RuntimeError: ")
    if output.replace(".", "").isdecimal():
        return Check("nvrtc", Status.ok, output)
    return Check("nvrtc", Status.warn, output, "`pip install nvidia-cuda-nvrtc`: without it there is no CUDA C++")


def _tool(name: str, find: Callable[[str], str]) -> Check:
    try:
        return Check(name, Status.ok, find(name))
    except PoolError as error:
        return Check(name, Status.warn, "not found", str(error))


def _profilers(pool: Pool, gpu_facts: InstalledGpus, home: Path) -> list[Check]:
    """What each profiler shows of a kernel of our own."""
    try:
        device = chosen(gpu_facts.accelerators, pool, os.environ)[0]
        seen = asyncio.run(_seen(pool, device, home))
    except (PoolError, InputError, OSError) as error:
        return [Check("profilers", Status.warn, str(error), WITHOUT_COUNTERS)]
    return [*profiler_checks(seen), _scopes()]


async def _seen(pool: Pool, device: Accelerator, home: Path) -> DeviceProfile:
    profilers = profilers_for(device, home)
    try:
        return await profilers.prove(Lease(pool, home, device.uuid))
    finally:
        await profilers.close()


def profiler_checks(seen: DeviceProfile) -> list[Check]:
    """What ``seen`` of a kernel of our own says of the profilers."""
    return [
        _profiler("launch trace", "torch", seen, f"torch.profiler sees kernels; {seen.isolation}", WITHOUT_TRACE),
        _profiler("gpu counters", "ncu", seen, "Nsight Compute may read them", WITHOUT_COUNTERS),
    ]


def _scopes() -> Check:
    # Looked for, not imported: that takes a second.
    spec = importlib.util.find_spec("triton")
    folders = spec.submodule_search_locations if spec is not None else None
    if folders and any(Path(folder, "profiler", "language.py").exists() for folder in folders):
        return Check("kernel scopes", Status.ok, "Proton, for kernels that mark scopes")
    return Check("kernel scopes", Status.warn, "Triton came without Proton", "scopes inside kernels are not timed")


def _profiler(name: str, source: str, seen: DeviceProfile, detail: str, way_out: str) -> Check:
    if source in seen.sources:
        return Check(name, Status.ok, detail)
    counters = [reason for reason in seen.unavailable if reason.startswith("no counters")]
    others = [reason for reason in seen.unavailable if reason not in counters]
    why = next(iter(counters if source == "ncu" else others), "it shows nothing")
    return Check(name, Status.warn, why, way_out)


def _missing(name: str, detail: str, way_out: str) -> Check:
    return Check(name, Status.fail, detail, way_out)


def _last_line(command: list[str]) -> str:
    """Last line of what a command printed, errors included."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} does not run: {error}"
    lines = [line for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit status {done.returncode}"
