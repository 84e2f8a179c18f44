"""Checks every piece of the NVIDIA pool on a machine with a GPU: one line each, PASS or FAIL, about three minutes.

    python3 tests/device/check_nvidia.py [--only triton] [--out FOLDER]

`--only profilers --only counters_in_turn --only profiling` are the profilers alone, about two
minutes; `--only ordinary` the ordinary processes alone.

Needs torch with CUDA, Triton, nvidia-ml-py and msgspec. Exit status 0 if all passed. What a machine does not permit
(counters) is a PASS with the reason. On a machine without a GPU, `--only compile_rate` measures compiling alone.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from common import compiled, confined, importable, imported, pool_and_facts, text

CHECKS: dict[str, Callable[[Path], object]] = {}


def check(function: Callable[[Path], object]) -> Callable[[Path], object]:
    """Register a check; what it returns is printed beside its name."""
    CHECKS[function.__name__] = function
    return function


@check
def nvml(home: Path) -> object:
    from kernelswarm.hardware.machine.nvml import find_devices, read_clocks

    devices = find_devices()
    now = read_clocks(devices.accelerators[0].uuid)
    assert devices.accelerators[0].target.startswith("sm_") and devices.accelerators[0].max_clock_mhz > 0
    return f"{devices} now {now}"


@check
def peaks(home: Path) -> object:
    started = time.monotonic()
    _, facts = pool_and_facts(home)
    first = time.monotonic() - started
    _, again = pool_and_facts(home)
    second = time.monotonic() - started - first
    assert again == facts and second < 1.0, f"kept peaks took {second:.1f} s"
    speeds = facts.matmul_gflops
    assert 0.3 * speeds["bf16"] < speeds["fp16"] and speeds["fp32"] < speeds["tf32"] < speeds["bf16"] < speeds["fp8"]
    assert facts.bandwidths[0][1] >= facts.bandwidths[-1][1] >= facts.copy_gbps > 1000
    tera = {name: round(speed / 1000, 1) for name, speed in speeds.items()}
    sets = [(size >> 20, round(speed)) for size, speed in facts.bandwidths]
    return f"{first:.1f} s; copy {facts.copy_gbps:.0f} GB/s; MiB, GB/s {sets}; TFLOP/s {tera}; {facts.accelerators[0]}"


@check
def doctor(home: Path) -> object:
    from kernelswarm.hardware.gpu_doctor import examine_gpu
    from kernelswarm.hardware.pools.pool_files import find_pool

    checks = examine_gpu(find_pool("h200", home), home)
    lines = [f"{result.status} {result.name}: {result.detail} {result.way_out}".strip() for result in checks]
    assert not [line for line in lines if line.startswith("fail")], lines
    return lines


@check
def lease(home: Path) -> object:
    from kernelswarm.hardware.machine.lease import Lease

    pool, facts = pool_and_facts(home)

    async def run() -> float:
        held = Lease(pool, home, facts.accelerators[0].uuid)
        async with held.exclusive():
            started = time.monotonic()
            async with held.compiling():
                return time.monotonic() - started

    return f"compiling was let in after {asyncio.run(run()):.4f} s while the device was leased"


@check
def triton_ahead(home: Path) -> object:
    source = text("rows_triton.py")
    report, archive = compiled("triton", source, home)

    def work(scratch: Path) -> dict:
        import torch
        import triton

        from kernelswarm.hardware.languages.triton import unpack, use

        kernels = unpack(archive, scratch / "cache")
        use(scratch / "cache")
        hits: list[bool] = []
        triton.knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
        module = imported(source, scratch)
        errors, first = [], 0.0
        for shape in ((4096, 8192), (37, 1000)):
            x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
            torch.cuda.synchronize()
            started = time.perf_counter()
            out = module.kernel(x)
            torch.cuda.synchronize()
            first = first or time.perf_counter() - started
            wide = x.double()
            exact = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
            errors.append(float((out.double() - exact).norm() / exact.norm()))
        return {"kernels": kernels, "hits": hits, "errors": errors, "first_ms": round(first * 1e3, 1)}

    outcome = confined(home, work)
    assert outcome["hits"] == [True, True], f"launches must find what was compiled: {outcome}"
    assert max(outcome["errors"]) < 5e-3, outcome
    return f"compiled in {report.seconds:.1f} s, {[(k.registers, k.spill_bytes) for k in report.kernels]}; {outcome}"


@check
def triton_descriptors(home: Path) -> object:
    from kernelswarm.hardware.languages import triton as language

    source = text("product_triton.py")
    report, archive = compiled("triton", source, home)
    assert any("HGMMA" in code for code in language.assembly(archive).values()), "no wgmma in the machine code"

    def work(scratch: Path) -> dict:
        import torch

        language.unpack(archive, scratch / "cache")
        language.use(scratch / "cache")
        module = imported(source, scratch)
        a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        exact = a.double() @ b.double()
        return {"error": float((module.kernel(a, b).double() - exact).norm() / exact.norm())}

    outcome = confined(home, work)
    assert outcome["error"] < 1e-2, outcome
    return f"{report.kernels[0]}; {outcome}"


@check
def cuda_ahead(home: Path) -> object:
    from kernelswarm.hardware.languages import cuda

    source = cuda.LOADER + "\n\n" + text("scale_cuda.py")
    report, artifact = compiled("cuda", source, home)

    def work(scratch: Path) -> dict:
        import torch

        os.environ.update(KERNELSWARM_ARTIFACTS=str(artifact.parent), XDG_CACHE_HOME=str(scratch))
        module = imported(source, scratch)
        x = torch.randn(1000, 999, device="cuda", dtype=torch.bfloat16)
        right = torch.equal(module.kernel(x), x * 2)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(1000):
            module.kernel(x)
        issued = time.perf_counter() - started
        torch.cuda.synchronize()
        shipped = not (scratch / "kernelswarm-kernels").exists()
        os.environ["KERNELSWARM_ARTIFACTS"] = ""
        module._functions.clear()
        alone = torch.equal(module.kernel(x), x * 2)
        return {"right": right, "shipped": shipped, "alone": alone, "us_a_launch": round(issued * 1e3, 1)}

    outcome = confined(home, work)
    assert outcome["right"] and outcome["shipped"] and outcome["alone"], outcome
    assert "code for sm_90" in next(iter(cuda.assembly(artifact).values()))
    return f"compiled in {report.seconds:.2f} s: {report.kernels[0]}; {outcome}"


READER = """
import sys, torch
from kernelswarm.hardware.harness.tensors.output_transfer import written
from kernelswarm.hardware.harness.tensors.tensor_placement import set_device
file, size = int(sys.argv[1]), int(sys.argv[2])
set_device("cuda:0")
with written(file, size) as outputs:
    assert outputs._block is not None, "it came through main memory"
    first = outputs.part(3, size - 3)
    print(int(first[:-4].sum()), outputs.few(size - 4, 4).tolist())
    # Closed while the device still copies out of it.
    late = [outputs.part(3, size - 3) for _ in range(16)]
assert int(late[-1][:-4].sum()) == int(first[:-4].sum())
try:
    outputs.__init__(file, size + (1 << 30))
    assert outputs._block is None, "more was opened than there is"
finally:
    outputs.close()
"""


@check
def device_memory(home: Path) -> object:
    """Outputs of a gigabyte reach another process on the device, and a changed byte shows in a fingerprint."""
    import subprocess

    import torch

    from kernelswarm.hardware.harness.tensors.output_transfer import copy_out
    from kernelswarm.hardware.harness.tensors.tensor_placement import set_device

    tensor_device = set_device("cuda:0")
    outputs = [torch.tensor([1, 2, 3], dtype=torch.uint8, device=tensor_device.device)]
    outputs.append(torch.full((1 << 28,), 1.0, device=tensor_device.device))
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        file = copy_out(outputs, tensor_device)
        seconds.append(time.monotonic() - began)
        size = 3 + (1 << 30)
        command = (sys.executable, "-c", READER, str(file), str(size))
        ran = subprocess.run(command, pass_fds=(file,), capture_output=True, text=True, check=False)
        os.close(file)
        expected = f"{((1 << 28) - 1) * (0x80 + 0x3F)} {[0, 0, 0x80, 0x3F]}"
        assert ran.stdout.strip() == expected, f"{ran.stdout} {ran.stderr}"
    mark = tensor_device.fingerprint(outputs[1])
    began = time.monotonic()
    assert tensor_device.fingerprint(outputs[1]) == mark
    took = time.monotonic() - began
    outputs[1][12345] = 2.0
    assert tensor_device.fingerprint(outputs[1]) != mark
    return f"1 GiB handed over in {min(seconds) * 1e3:.1f} ms, its fingerprint in {took * 1e3:.1f} ms"


@check
def profilers(home: Path) -> object:
    """Each profiler by itself on a kernel of our own, behind closed doors; with them open if that shows nothing."""
    from kernelswarm.hardware.harness.inspection import profilers_for
    from kernelswarm.hardware.machine.lease import Lease
    from kernelswarm.hardware.profilers.accelerator import ALWAYS, PROBE

    pool, facts = pool_and_facts(home)
    device = facts.accelerators[0]

    async def look(mode: str, doors: str) -> str:
        runner = profilers_for(device, home)
        runner._open = {mode} if doors == "open" else set()
        started = time.monotonic()
        try:
            profile, reasons = await runner._run([mode], PROBE, (), Lease(pool, home, device.uuid))
        finally:
            await runner.close()
        seconds = time.monotonic() - started
        summary = reasons.get(mode) or f"saw {len(profile.kernels)} kernels under {profile.isolation}"
        print(f"  {mode}, doors {doors}, {seconds:.1f} s: {summary}", flush=True)
        return "" if reasons else doors

    async def first(mode: str) -> str:
        return await look(mode, "closed") or await look(mode, "open")

    async def every() -> dict[str, str]:
        return dict(zip(ALWAYS, await asyncio.gather(*map(first, ALWAYS)), strict=True))

    worked = asyncio.run(every())
    assert worked["trace"], "torch.profiler sees nothing on this device; why stands above"
    return f"doors at which it works: {worked} (no counters is a PASS: the machine may not permit them)"


@check
def counters_in_turn(home: Path) -> object:
    """Three sessions at once, each profiling one kernel after another: none misses counters that another one has."""
    from counters_in_turn import profile_in_turn

    return profile_in_turn(home)


@check
def profiling(home: Path) -> object:
    """The whole way: a device times a candidate, profiles it, and the analyst says what limits it."""
    from profiling_passes import profile_all

    return profile_all(home, *pool_and_facts(home), own=text("rows_triton.py"))


@check
def replays(home: Path) -> object:
    """A small kernel takes the same time on the device in every run; what cannot be recorded is timed otherwise."""
    from replays import replay_all

    return replay_all(home, *pool_and_facts(home))


@check
def ordinary(home: Path) -> object:
    """The call: finished files in ordinary processes, Triton compiling behind the walls."""
    from ordinary_calls import time_all

    # Without the regions that Proton times: a user's process has no profiler.
    own = "\n".join(line for line in text("rows_triton.py").splitlines() if "pl." not in line and " as pl" not in line)
    return time_all(home, *pool_and_facts(home), own=own)


@check
def compile_rate(home: Path) -> object:
    from kernelswarm.hardware.languages import find_language

    pool, facts = pool_and_facts(home)
    sources = [text("rows_triton.py") + f"\n# {number}\n" for number in range(32)]

    async def run() -> float:
        started = time.monotonic()
        language = find_language("triton")
        reports = await asyncio.gather(
            *(language.compile(source, pool=pool, hardware=facts, cache=home / "artifacts") for source in sources)
        )
        assert all(report.ok for report, _ in reports)
        return time.monotonic() - started

    seconds = asyncio.run(run())
    return f"{60 * len(sources) / seconds:.0f} candidates a minute on {facts.cores} cores (2 launches each)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=None, help="a check's name; may be given again")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"), help="folder for check_nvidia.json")
    arguments = parser.parse_args()
    importable()
    results: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="kernelswarm-check-") as folder:
        home = Path(folder)
        prepared = time.monotonic()
        import torch  # noqa: F401 - before the forks, as in the harness

        from kernelswarm.hardware.languages.triton import prepare

        (home / "host").mkdir()
        try:
            prepare(home / "host", "sm_90")
            print(f"PASS prepare: torch and Triton's driver in {time.monotonic() - prepared:.1f} s", flush=True)
        except Exception:  # noqa: BLE001
            traceback.print_exc()
            print("FAIL prepare", flush=True)
            results["prepare"] = {"passed": False}
        for name, function in CHECKS.items():
            if arguments.only and name not in arguments.only:
                continue
            started = time.monotonic()
            try:
                detail, passed = function(home), True
            except Exception as error:  # noqa: BLE001
                traceback.print_exc()
                detail, passed = f"{type(error).__name__}: {error}", False
            seconds = time.monotonic() - started
            results[name] = {"passed": passed, "seconds": round(seconds, 1), "told": detail}
            print(f"{'PASS' if passed else 'FAIL'} {name} ({seconds:.1f} s): {detail}", flush=True)
    if arguments.out:
        Path(arguments.out, "check_nvidia.json").write_text(json.dumps(results, indent=1, default=str))
    failed = [name for name, result in results.items() if not result["passed"]]
    print(f"{len(results) - len(failed)} passed, failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
