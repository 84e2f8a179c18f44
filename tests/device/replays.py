"""For check_nvidia.py: what the device's time of a small kernel is worth, and what cannot be replayed."""

import asyncio
from pathlib import Path

SMALL = """
import torch

shapes = {"main": dict(rows=256, columns=1024), "narrow": dict(rows=37, columns=1000)}

def inputs(generator, rows, columns):
    return [torch.randn(rows, columns, generator=generator).bfloat16() for _ in range(2)]

def reference(x, y):
    wide = (x + y).float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
"""
OWN = """
import torch

def kernel(x, y):
    wide = (x + y).float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
"""
WAITS = OWN.replace("    return", "    if float(wide[0, 0].item()) > 1e30:\n        return x\n    return")
RUNS = 3
MOST_APART = 0.03


def replay_all(home: Path, pool, hardware) -> str:
    """Time a candidate like eager several times, each time beside baselines of a process of their own."""
    from kernelswarm.hardware.device import Device
    from kernelswarm.hardware.sources.problem_files import load_problem

    (home / "small.py").write_text(SMALL)
    problem = load_problem(home / "small.py")

    async def timed(device: Device, source: str):
        facts = await device.validate_problem(problem)
        report, _ = await device.compile(source, "triton")
        profile = await device.profile(problem, facts, source, report)
        assert profile.timing is not None, profile.evidence
        return profile.timing

    async def run() -> str:
        ratios, intervals = [], []
        for _ in range(RUNS):
            async with Device(pool, hardware, home, baselines=("eager", "compile")) as device:
                timing = await timed(device, OWN)
                assert timing.measure == "graph", timing
                interval = timing.speedup["eager"]
                ratios.append(timing.median_ms["eager"] / timing.median_ms["compile"])
                intervals.append((interval.median, interval.low, interval.high))
                assert interval.low <= 1.0 <= interval.high, "the same kernel is not as fast"
        async with Device(pool, hardware, home, baselines=("eager",)) as device:
            assert (await timed(device, WAITS)).measure == "events"
        assert max(ratios) / min(ratios) < 1 + MOST_APART, ratios
        warm = {name: round(ms * 1e3, 2) for name, ms in timing.warm_ms.items()}
        cold = {name: round(ms * 1e3, 2) for name, ms in timing.median_ms.items()}
        return f"us cold {cold} warm {warm}; like eager {intervals}; compile over eager {[round(r, 3) for r in ratios]}"

    return asyncio.run(run())
