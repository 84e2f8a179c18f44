"""A run times several processes of a candidate; what each showed stays apart, and counts together."""

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.timing.interleaved import CANDIDATE, THOROUGH, Part, result
from kernelswarm.schemas import Problem, ProblemFacts, Series, Timing, Verdict

KERNEL = """
import torch

def kernel(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""

WRONG_ONCE_TIMED = """
import torch

calls = 0

def kernel(x, w):
    global calls
    calls += 1
    out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    return out if calls < 3 else out * 1.5
"""


def part(eager: int, candidate: int, rounds: int = 5) -> Part:
    times = {"eager": eager, CANDIDATE: candidate}
    return Part(tuple(Series(name=name, samples_ns=(ns,) * rounds, calls=2) for name, ns in times.items()))


def test_a_speedup_is_formed_in_each_process_and_averaged_over_them() -> None:
    timing = result([part(4000, 1000), part(9000, 4000, rounds=7)])

    assert timing.speedup["eager"].median == pytest.approx(3.0)
    assert timing.median_ms == pytest.approx({"eager": 6e-3, CANDIDATE: 2e-3})
    assert timing.rounds == (5, 7)
    assert [series.samples_ns for series in timing.series] == [(4000,) * 5 + (9000,) * 7, (1000,) * 5 + (4000,) * 7]


def test_a_run_in_one_process_claims_less() -> None:
    single, four = result([part(2_000_000, 1_000_000)]), result([part(2_000_000, 1_000_000)] * 4)

    assert single.spread > four.spread
    assert single.speedup["eager"].low < four.speedup["eager"].low < four.speedup["eager"].high
    assert four.speedup["eager"].high < single.speedup["eager"].high


@pytest.mark.asyncio(loop_scope="session")
async def test_a_finalist_is_timed_in_several_processes(device: Device, problem: Problem, facts: ProblemFacts) -> None:
    report, _ = await device.compile(KERNEL, "cpp")

    timed = await device.profile(problem, facts, KERNEL, report, thorough=True)

    assert timed.verdict is Verdict.correct and isinstance(timed.timing, Timing)
    assert len(timed.timing.rounds) == THOROUGH.processes
    assert {len(series.samples_ns) for series in timed.timing.series} == {sum(timed.timing.rounds)}


@pytest.mark.asyncio(loop_scope="session")
async def test_the_first_process_that_is_wrong_ends_it(device: Device, problem: Problem, facts: ProblemFacts) -> None:
    report, _ = await device.compile(WRONG_ONCE_TIMED, "cpp")

    timed = await device.profile(problem, facts, WRONG_ONCE_TIMED, report, thorough=True)

    assert timed.verdict is Verdict.wrong_numbers and timed.timing is None
