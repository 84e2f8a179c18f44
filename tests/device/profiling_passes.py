"""For check_nvidia.py: the whole way from a candidate over its timing and its profile to a diagnosis."""

import asyncio
import time
from pathlib import Path

RMSNORM = """
import torch

shapes = {"main": dict(rows=4096, columns=8192), "narrow": dict(rows=37, columns=1000)}

def inputs(generator, rows, columns):
    return [torch.randn(rows, columns, generator=generator).bfloat16()]

def reference(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
"""
IN_TORCH = """
import torch

def kernel(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
"""


def profile_all(home: Path, pool, hardware, *, own: str) -> list[object]:
    """Time and look into ``own``, a Triton candidate for RMSNorm with marked regions, and one in PyTorch."""
    from kernelswarm.hardware.device import Device
    from kernelswarm.hardware.sources.problem_files import load_problem

    (home / "rmsnorm.py").write_text(RMSNORM)
    problem = load_problem(home / "rmsnorm.py")

    async def run() -> list[object]:
        diagnoses: list[object] = []
        async with Device(pool, hardware, home, baselines=("eager",)) as device:
            facts = await device.validate_problem(problem)
            await device.baselines(problem, facts)
            for name, source in {"triton": own, "torch": IN_TORCH}.items():
                report, _ = await device.compile(source, "triton")
                timed = await device.profile(problem, facts, source, report)
                assert timed.timing is not None, timed.evidence
                started = time.monotonic()
                seen = await device.inspect(problem, source, report)
                seconds = time.monotonic() - started
                print(f"  {name}: timed in {timed.seconds:.1f} s, looked into in {seconds:.1f} s: {seen}", flush=True)
                assert seen is not None and seen.kernels, seen
                assert seen.kernels[0].time_us > 0, seen
                assert "seccomp" in seen.isolation, seen
                marked = {"load", "reduce", "store"} if name == "triton" else set()
                assert set(seen.kernels[0].regions) == marked, seen
                diagnoses.append(diagnosed(problem, facts, pool, hardware, report, timed, seen))
                print(f"  {name}: {diagnoses[-1]}", flush=True)
        return diagnoses

    return asyncio.run(run())


def diagnosed(problem, facts, pool, hardware, compiled, timed, seen) -> str:
    """What the analyst says of a candidate that was timed and looked into."""
    from msgspec.structs import replace

    try:
        from kernelswarm.agents.analyst import diagnose
        from kernelswarm.graph.session_graph import SearchGraph
    except ImportError as error:
        return f"no diagnosis: the agents need {error.name}"
    from kernelswarm.schemas import CandidateCompiled, CandidateProfiled, SessionOpened, seal

    events = [
        ("", SessionOpened(problem=problem, facts=facts, pool=pool, hardware=hardware, budget=1, seed=0)),
        ("n001", CandidateCompiled(report=compiled)),
        ("n001", CandidateProfiled(report=replace(timed, device=seen))),
    ]
    graph = SearchGraph("s-check")
    for node, event in events:
        about = dict(session="s-check", pool=pool.name, node=node, cause=node, agent="check", worker="check", at_ns=1)
        graph.apply(seal(event, **about), event)
    diagnosis = diagnose(graph, "n001", events[-1][1])
    evidence = "; ".join(f"{finding.name} {finding.value}: {finding.meaning}" for finding in diagnosis.evidence)
    return f"{diagnosis.summary} | {evidence} | try {', '.join(advice.action for advice in diagnosis.advice)}"
