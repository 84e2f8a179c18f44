"""Candidates' processes that wait, ready to be used: what an accelerator's pool does, shown on the processor."""

import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.processes.worker import Worker
from kernelswarm.schemas import Problem, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

RIGHT = "import torch\ndef kernel(x, w): return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w\n"
DIES = "import os\ndef kernel(x, w): os._exit(3)\n"


@pytest_asyncio.fixture(loop_scope="session")
async def launcher(device: Device, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Launcher]:
    monkeypatch.setattr(device._launcher, "_standby", 2)
    yield device._launcher
    while device._launcher._waiting:
        await device._launcher._waiting.pop().kill()


async def ready(device: Device) -> list[Worker]:
    launcher = device._launcher
    while len(launcher._waiting) < 2:
        async with device._lease.shared() as share, launcher.getting_ready(share):
            pass
    return list(launcher._waiting)


async def judged(device: Device, problem: Problem, source: str) -> Verdict:
    report, _ = await device.compile(source, "cpp")
    return (await device.verify(problem, source, report)).verdict


async def test_a_candidate_gets_one_that_waits_and_nobody_gets_it_after(
    device: Device, problem: Problem, launcher: Launcher
) -> None:
    first, second = await ready(device)
    assert await judged(device, problem, DIES) is Verdict.crash
    assert not first.alive and launcher._waiting[0] is second
    assert await judged(device, problem, RIGHT) is Verdict.correct
    assert not second.alive and not {first, second} & set(launcher._waiting)


async def test_while_one_is_verified_at_least_one_other_gets_ready(
    device: Device, problem: Problem, launcher: Launcher
) -> None:
    assert await judged(device, problem, RIGHT) is Verdict.correct
    assert 1 <= len(launcher._waiting) <= 2 and all(worker.alive for worker in launcher._waiting)


async def test_one_that_died_waiting_is_not_blamed_on_a_candidate(
    device: Device, problem: Problem, launcher: Launcher
) -> None:
    dead = await ready(device)
    for worker in dead:
        os.kill(worker.pid, signal.SIGKILL)
    assert await judged(device, problem, RIGHT) is Verdict.correct
    assert not set(dead) & set(launcher._waiting)


async def test_one_that_may_start_programs_is_started_for_it(device: Device, launcher: Launcher) -> None:
    waiting = await ready(device)
    worker = await launcher.candidate(programs=True)
    try:
        assert "seccomp_but_programs" in worker.isolation and launcher._waiting == waiting
    finally:
        await worker.kill()


async def test_on_a_processor_nobody_waits(device: Device) -> None:
    async with device._lease.shared() as share, device._launcher.getting_ready(share):
        pass
    assert not device._launcher._waiting


async def test_none_is_started_for_who_let_go_of_the_machine(device: Device, launcher: Launcher) -> None:
    async with device._lease.shared() as share:
        share.leave()
        async with launcher.getting_ready(share):
            pass
    assert not launcher._waiting
