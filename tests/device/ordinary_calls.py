"""For check_nvidia.py: finished files in ordinary processes on a device, a Triton file behind its walls among them."""

import asyncio
import time
from pathlib import Path

from profiling_passes import IN_TORCH, RMSNORM


def time_all(home: Path, pool, hardware, *, own: str) -> list[str]:
    """The call of RMSNorm's ``own`` Triton candidate and of one in PyTorch, against eager and ``torch.compile``."""
    from kernelswarm.hardware.device import Device
    from kernelswarm.hardware.sources.problem_files import load_problem

    (home / "rmsnorm.py").write_text(RMSNORM)
    problem = load_problem(home / "rmsnorm.py")

    async def run() -> list[str]:
        async with Device(pool, hardware, home, baselines=("eager", "compile")) as device:
            facts = await device.validate_problem(problem)
            lines = []
            for name, source in {"torch": IN_TORCH, "triton": own}.items():
                lines += await _timed(device, problem, facts, name, source)
            return lines

    return asyncio.run(run())


async def _timed(device, problem, facts, name: str, source: str) -> list[str]:
    from kernelswarm.hardware.dropin import finish
    from kernelswarm.hardware.harness.timing.effort import Effort

    text, started = finish(problem, facts, source), time.monotonic()
    timing, missing = await device.ordinary(problem, facts, text, effort=Effort(processes=2))
    assert timing is not None, f"{name}: {missing}"
    host = next(iter(device._finished.hosts.values()))
    layers = host.isolation.split("+")
    line = f"{name}: {time.monotonic() - started:.1f} s; ms {timing.median_ms}; {timing.speedup}; behind {layers}"
    print(f"  {line}; missing {host.missing}", flush=True)
    if name != "triton":
        assert "seccomp" in layers, f"{name} may start programs: {layers}"
        return [line]
    # One kernel for what eager does with five: were it the reference that computes, they would be alike.
    assert timing.speedup["eager"].median > 1.5, "the kernel was not used, or is slow"
    assert "seccomp_but_programs" in layers and {"landlock", "mountns"} & set(layers), f"it had no walls: {layers}"
    return [line, await _contract(device, text)]


async def _contract(device, text: str) -> str:
    started = time.monotonic()
    properties = await device.contract(text)
    lacking = [
        f"{entry.name}{' (essential)' * entry.is_essential}: {entry.detail}" for entry in properties if not entry.ok
    ]
    line = f"contract: {time.monotonic() - started:.1f} s, {len(properties)} properties, lacking {lacking}"
    print(f"  {line}", flush=True)
    assert not [entry for entry in properties if entry.is_essential and not entry.ok], lacking
    return line
