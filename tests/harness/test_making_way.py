"""Who verifies lets others time something between two cases, and stands still meanwhile."""

import asyncio
import signal
from pathlib import Path
from typing import Any, cast

import pytest
from waiting import LIMIT_S

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.baseline_process import BaselineProcess
from kernelswarm.hardware.harness.deaths import BaselinesDied
from kernelswarm.hardware.harness.messages.timing import Time
from kernelswarm.hardware.processes.worker import Worker
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Verdict

REFERENCE = """
import torch
shapes = {"main": dict(rows=64, cols=64)}
def inputs(generator, rows, cols): return [torch.randn(rows, cols, generator=generator)]
def reference(x): return torch.relu(x)
"""
SLOW = """
import time, torch
def kernel(x):
    time.sleep(0.1)
    return torch.relu(x)
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_a_timing_does_not_wait_for_the_end_of_a_verification(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(REFERENCE)
    problem, sent, send = load_problem(path), [], Worker.send

    def seen(self: Worker, number: int) -> None:
        sent.append(number)
        send(self, number)

    monkeypatch.setattr(Worker, "send", seen)
    report, _ = await device.compile(SLOW, "cpp")
    await device.validate_problem(problem)
    await device.verify(problem, SLOW, report)
    sent.clear()
    verifying = asyncio.create_task(device.verify(problem, SLOW, report))
    timings = 0
    while not verifying.done():
        async with asyncio.timeout(LIMIT_S), device._lease.exclusive():
            if sent and not verifying.done():
                assert sent[-1] == signal.SIGSTOP, "the candidate went on beside it"
                timings += 1
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.01)
    verified = await verifying
    await device.forget(problem)
    assert timings > 3 and verified.verdict is Verdict.correct


async def test_who_has_the_machine_does_not_wait_for_baselines_that_are_made_ready_anew() -> None:
    timing = object.__new__(BaselineProcess)
    timing._guard, timing._preparing, timing._worker = asyncio.Lock(), None, cast(Any, object())
    async with timing._guard:
        with pytest.raises(BaselinesDied):
            await timing._time(Time(calls=1, name="eager"))
        timing._preparing = asyncio.current_task()
        timing._check_ready()
