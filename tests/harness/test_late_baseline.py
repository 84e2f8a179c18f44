"""Late baselines are compiled while candidates are judged, stand still while they are timed, and join. It compiles."""

import asyncio
import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import LIMIT_S, again_until

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness import baseline_process, late_baseline
from kernelswarm.hardware.harness.late_baseline import LATE
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.schemas import HardwareFacts, Problem, ProblemFacts, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATIENT = Effort(patient_until=math.inf)
HONEST = "import torch\ndef kernel(x, w): return torch.nn.functional.rms_norm(x, w.shape, w, 1e-6)"


async def test_whoever_is_hurried_waits_no_longer() -> None:
    never, hurry = asyncio.create_task(asyncio.Event().wait()), asyncio.Event()

    async def hurried() -> None:
        await hurry.wait()

    effort = replace(PATIENT, hurried=hurried)
    waiting = asyncio.create_task(late_baseline._waited([never], effort))  # type: ignore[list-item]
    await asyncio.sleep(0.01)
    assert not waiting.done()
    hurry.set()
    await asyncio.wait_for(waiting, LIMIT_S)
    assert not never.done(), "it is compiled all the same"
    await asyncio.wait_for(late_baseline._waited([never], Effort(hurried=hurried)), LIMIT_S)  # type: ignore[list-item]
    never.cancel()


def _pid(device: Device) -> int:
    """Of the process in the background; 0 until it works."""
    lates = [late for by_shape in device._late._by_problem.values() for late in by_shape.values()]
    return next((pid for late in lates for pid in late.pids.values()), 0)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture(params=["compile", "max_autotune"])
def late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A baseline that is late: max-autotune always is, torch.compile as soon as it takes longer than the limit."""
    monkeypatch.setattr(baseline_process, "LATE_AFTER_SECONDS", 0.0)
    return str(request.param)


@pytest.mark.thorough
async def test_it_joins_when_it_is_there(
    device: Device, problem: Problem, facts: ProblemFacts, tmp_path: Path, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware: HardwareFacts = device._hardware
    async with Device(device._pool, hardware, tmp_path, baselines=("eager", late), background=True) as second_device:
        report = await second_device.baselines(problem, facts)
        compiled, _ = await second_device.compile(HONEST, "cpp")
        await asyncio.to_thread(again_until, True, lambda: _pid(second_device) > 0)
        async with second_device._lease.exclusive():
            await asyncio.to_thread(again_until, "T", lambda: _state(_pid(second_device)))
        early = await second_device.profile(problem, facts, HONEST, compiled)
        before = second_device.joined(problem, facts)
        # Both wait for it, and it joins once.
        first, other = await asyncio.gather(
            *(second_device.profile(problem, facts, HONEST, compiled, effort=PATIENT) for _ in range(2))
        )
        joined, again = (second_device.joined(problem, facts) for _ in range(2))

    assert [(status.name, status.ok, status.pending) for status in report.statuses] == [
        ("eager", True, False),
        (late, False, True),
    ]
    assert early.timing is not None and early.timing.best == "eager" and set(early.timing.speedup) == {"eager"}
    assert early.timing.absent == {late: LATE} and before is None
    assert first.verdict is Verdict.correct and first.timing is not None and not first.timing.absent
    assert other.timing is not None and set(other.timing.speedup) == {"eager", late}
    assert set(first.timing.speedup) == {"eager", late}
    assert joined is not None and [status.ok for status in joined.statuses] == [True, True] and again is None
    assert joined.statuses[1].compiled == 0 and joined.statuses[1].kept > 0, "it was compiled twice"

    monkeypatch.setattr(baseline_process, "LATE_AFTER_SECONDS", LIMIT_S)
    async with Device(device._pool, hardware, tmp_path, baselines=("eager", late), background=True) as third_device:
        report = await third_device.baselines(problem, facts)
    assert [(status.ok, status.pending) for status in report.statuses] == [(True, False)] * 2, "the caches hold it"


@pytest.mark.thorough
async def test_finalists_wait_for_those_alone_that_count(
    device: Device, problem: Problem, facts: ProblemFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline_process, "LATE_AFTER_SECONDS", 0.0)
    names = ("eager", "compile", "max_autotune")
    async with Device(device._pool, device._hardware, tmp_path, baselines=names, background=True) as second_device:
        # Nobody has asked for the baselines before: a session that goes on elsewhere begins so.
        compiled, _ = await second_device.compile(HONEST, "cpp")
        some = await second_device.profile(problem, facts, HONEST, compiled, effort=replace(PATIENT, against="compile"))
        joined = second_device.joined(problem, facts)
        all_of_them = await second_device.profile(problem, facts, HONEST, compiled, effort=PATIENT)
        joined_last = second_device.joined(problem, facts)

    assert some.timing is not None and set(some.timing.speedup) == {"eager", "compile"}
    assert some.timing.absent == {"max_autotune": LATE}
    assert joined is not None and [status.pending for status in joined.statuses] == [False, False, True]
    assert all_of_them.timing is not None and set(all_of_them.timing.speedup) == set(names)
    assert joined_last is not None and all(status.ok for status in joined_last.statuses)


async def test_one_that_dies_is_said_and_nobody_waits_for_it(
    device: Device, problem: Problem, facts: ProblemFacts, tmp_path: Path, late: str
) -> None:
    async with Device(
        device._pool, device._hardware, tmp_path, baselines=("eager", late), background=True
    ) as second_device:
        await second_device.baselines(problem, facts)
        await asyncio.to_thread(again_until, True, lambda: _pid(second_device) > 0)
        os.kill(_pid(second_device), signal.SIGKILL)
        compiled, _ = await second_device.compile(HONEST, "cpp")
        profile = await second_device.profile(problem, facts, HONEST, compiled, effort=PATIENT)
        joined = second_device.joined(problem, facts)

    assert profile.timing is not None
    assert profile.timing.absent == {late: "its process was killed by SIGKILL"}
    assert joined is not None and not any(status.pending for status in joined.statuses)
    assert joined.statuses[1].detail == "its process was killed by SIGKILL"
