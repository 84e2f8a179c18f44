"""Max-autotune is compiled while candidates are judged, stands still while they are timed, and joins. It compiles."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from waiting import again_until

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.late_baseline import LATE
from kernelswarm.schemas import HardwareFacts, Problem, ProblemFacts, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

HONEST = "import torch\ndef kernel(x, w): return torch.nn.functional.rms_norm(x, w.shape, w, 1e-6)"


def _pid(device: Device) -> int:
    """Of the process in the background; 0 until it works."""
    lates = [late for by_shape in device._late._by_problem.values() for late in by_shape.values()]
    return next((late.pid for late in lates), 0)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.thorough
async def test_it_joins_when_it_is_there(device: Device, problem: Problem, facts: ProblemFacts, tmp_path: Path) -> None:
    hardware: HardwareFacts = device._hardware
    async with Device(
        device._pool, hardware, tmp_path, baselines=("eager", "max_autotune"), background=True
    ) as second_device:
        report = await second_device.baselines(problem, facts)
        compiled, _ = await second_device.compile(HONEST, "cpp")
        await asyncio.to_thread(again_until, True, lambda: _pid(second_device) > 0)
        async with second_device._lease.exclusive():
            await asyncio.to_thread(again_until, "T", lambda: _state(_pid(second_device)))
        early = await second_device.profile(problem, facts, HONEST, compiled)
        before = second_device.joined(problem, facts)
        # Both wait for it, and it joins once.
        late, other = await asyncio.gather(
            *(second_device.profile(problem, facts, HONEST, compiled, patience=300) for _ in range(2))
        )
        joined, again = (second_device.joined(problem, facts) for _ in range(2))

    assert [(status.name, status.ok, status.pending) for status in report.statuses] == [
        ("eager", True, False),
        ("max_autotune", False, True),
    ]
    assert early.timing is not None and early.timing.best == "eager" and set(early.timing.speedup) == {"eager"}
    assert early.timing.absent == {"max_autotune": LATE} and before is None
    assert late.verdict is Verdict.correct and late.timing is not None and not late.timing.absent
    assert other.timing is not None and set(other.timing.speedup) == {"eager", "max_autotune"}
    assert set(late.timing.speedup) == {"eager", "max_autotune"}
    assert joined is not None and [status.ok for status in joined.statuses] == [True, True] and again is None
    assert joined.statuses[1].compiled == 0 and joined.statuses[1].kept > 0, "it was compiled twice"

    async with Device(
        device._pool, hardware, tmp_path, baselines=("eager", "max_autotune"), background=True
    ) as third_device:
        report = await third_device.baselines(problem, facts)
    assert [(status.ok, status.pending) for status in report.statuses] == [(True, False)] * 2, "the caches hold it"


async def test_one_that_dies_is_said_and_nobody_waits_for_it(
    device: Device, problem: Problem, facts: ProblemFacts, tmp_path: Path
) -> None:
    async with Device(
        device._pool, device._hardware, tmp_path, baselines=("eager", "max_autotune"), background=True
    ) as second_device:
        await second_device.baselines(problem, facts)
        await asyncio.to_thread(again_until, True, lambda: _pid(second_device) > 0)
        os.kill(_pid(second_device), signal.SIGKILL)
        compiled, _ = await second_device.compile(HONEST, "cpp")
        profile = await second_device.profile(problem, facts, HONEST, compiled, patience=300)
        joined = second_device.joined(problem, facts)

    assert profile.timing is not None
    assert profile.timing.absent == {"max_autotune": "its process was killed by SIGKILL"}
    assert joined is not None and not any(status.pending for status in joined.statuses)
    assert joined.statuses[1].detail == "its process was killed by SIGKILL"
