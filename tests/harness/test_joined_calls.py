"""A kernel that computes all calls of a batch at its first one: nothing of that shows where inputs come one by one."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.timing import interleaved
from kernelswarm.hardware.harness.timing.interleaved import ALONE_ALLOWANCE, CANDIDATE
from kernelswarm.hardware.harness.timing.one_by_one import BUSY, doubt
from kernelswarm.schemas import Interval, Problem, ProblemFacts, Timing, Verdict

from .conftest import problem_from

pytestmark = pytest.mark.asyncio(loop_scope="session")

Chain = tuple[Problem, ProblemFacts]

PROBLEM = """
import torch

shapes = {"main": dict(rows=2, cols=16), "ragged": dict(rows=3, cols=5)}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]

def reference(x):
    for _ in range(48):
        x = x + 0.1 * torch.sin(x)
    return x
"""
HONEST = """
import torch

def chain(x):
    for _ in range(48):
        x = x + 0.1 * torch.sin(x)
    return x

def kernel(x):
    return chain(x)
"""
JOINED = (
    HONEST
    + """
import sys

kept = {"frame": None}

def frame_of(name):
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame

def kernel(x):
    frame = frame_of("_called")
    if frame is None:
        return chain(x)
    if kept["frame"] is not frame:
        outputs, sets = [], [inputs[0] for inputs in frame.f_locals["sets"]]
        for begin in range(0, len(sets), 64):  # more would be shared among threads, which wait on a busy machine
            outputs += chain(torch.stack(sets[begin : begin + 64])).unbind(0)
        kept.update(frame=frame, outputs=outputs[::-1])
    return kept["outputs"].pop()
"""
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chain(
    device: Device, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Problem, ProblemFacts]]:
    problem = problem_from(tmp_path_factory.mktemp("chain"), PROBLEM, "chain")
    yield problem, await device.validate_problem(problem)
    await device.forget(problem)


@pytest.fixture(autouse=True)
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaved, "THOROUGH", replace(interleaved.THOROUGH, processes=2, seconds=0.1))


async def _timed(device: Device, chain: Chain, source: str) -> Timing:
    report, _ = await device.compile(source, "cpp")
    profiled = await device.profile(*chain, source, report, thorough=True)
    assert profiled.verdict is Verdict.correct and profiled.timing is not None
    return profiled.timing


async def test_calls_that_are_computed_together_save_nothing(device: Device, chain: Chain) -> None:
    timing = await _timed(device, chain, JOINED)
    among, alone = timing.median_ms, timing.alone_ms
    assert among["eager"] / among[CANDIDATE] > 3.0, "calls were not computed together: this test says nothing"
    # The least of its processes' medians may be less than the median.
    assert timing.speedup["eager"].median < 1.5 * ALONE_ALLOWANCE * alone["eager"] / alone[CANDIDATE] < 3.0
    # A burst of other work while it is timed accuses nobody, but lowers the speedup as it did above.
    is_noisy = timing.speedup["eager"].high > 2 * timing.speedup["eager"].median
    assert timing.background_load > BUSY or is_noisy or "it computes calls together" in doubt(timing, "best")


async def test_calls_that_are_computed_one_by_one_are_not_doubted(device: Device, chain: Chain) -> None:
    timing = await _timed(device, chain, HONEST)
    assert timing.alone_ms.keys() == {"eager", CANDIDATE} and not doubt(timing, "best")


@pytest.mark.parametrize(("high", "is_doubted"), [(1.8, True), (8.25, False)])
async def test_a_time_that_says_little_accuses_nobody(high: float, is_doubted: bool) -> None:
    """Times of a generated kernel beside a background load of 36 %, and what the same would be on a quiet machine."""
    timing = Timing(
        series=(),
        speedup={"eager": Interval(median=1.623, low=1.623**2 / high, high=high)},
        best="eager",
        median_ms={"eager": 14.674, CANDIDATE: 4.4839},
        alone_ms={"eager": 13.1982, CANDIDATE: 8.2},
    )
    assert bool(doubt(timing, "best")) is is_doubted


@pytest.mark.parametrize("load", [0.0, 0.44])
async def test_calls_that_are_far_slower_alone_are_doubted_on_a_quiet_machine(load: float) -> None:
    timing = Timing(
        series=(),
        speedup={"eager": Interval(median=1.0, low=0.4, high=2.5)},
        best="eager",
        median_ms={"eager": 1.0, CANDIDATE: 0.1},
        alone_ms={"eager": 1.0, CANDIDATE: 1.0},
        background_load=load,
    )
    assert ("it computes calls together" in doubt(timing, "best")) is (load == 0)
