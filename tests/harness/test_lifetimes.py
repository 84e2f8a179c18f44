"""No process outlives the search, and one that dies is replaced."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import has_ended

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.processes.fork_server import FORK_SERVERS
from kernelswarm.schemas import Problem, ProblemFacts, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

RIGHT = "import torch\ndef kernel(x, w): return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w\n"

SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.schemas import HardwareFacts, Pool

async def main():
    pool = Pool(name="cpu", platform="cpu", languages=("cpp",))
    hardware = HardwareFacts(
        device="", cores=1, isa=(), vector_bytes=16, l2_bytes=0, l3_bytes=0, memory_bytes=8 << 30,
        copy_gbps=1, peak_gflops=1,
    )
    launcher = Launcher(pool, hardware, Path(sys.argv[1]))
    workers = [await launcher.spawn(role) for role in ("candidate", "reference")]
    print(*(worker.pid for worker in workers), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open to wait for a process that is not ours")
async def test_kill_9_of_the_supervisor_leaves_nothing(tmp_path: Path) -> None:
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SUPERVISOR, str(tmp_path), stdout=subprocess.PIPE, start_new_session=True
    )
    assert supervisor.stdout is not None
    line = await supervisor.stdout.readline()
    handles = [os.pidfd_open(int(pid)) for pid in line.split()]
    assert len(handles) == 2

    supervisor.send_signal(signal.SIGKILL)
    await supervisor.wait()

    for handle in handles:
        ended = await asyncio.to_thread(has_ended, handle)
        os.close(handle)
        assert ended, "a child outlived its supervisor"


@pytest.mark.parametrize("how", ["killed", "making room"])
async def test_a_reference_that_ended_is_replaced_with_the_same_cases(
    device: Device, problem: Problem, how: str
) -> None:
    report, _ = await device.compile(RIGHT, "cpp")
    before = await device.verify(problem, RIGHT, report)
    worker = device._cases[problem.sha256]._worker
    assert worker is not None

    if how == "killed":
        os.kill(worker.pid, signal.SIGKILL)
    else:
        await device._make_room(problem.sha256)
        assert not worker.alive
    after = await device.verify(problem, RIGHT, report)

    assert after.verdict is Verdict.correct, after.evidence
    assert after.cases == before.cases
    assert device._cases[problem.sha256]._worker is not worker


async def test_a_fork_server_that_was_killed_is_replaced(device: Device, problem: Problem) -> None:
    report, _ = await device.compile(RIGHT, "cpp")

    os.kill(await _fork_server_of(device), signal.SIGKILL)

    assert (await device.verify(problem, RIGHT, report)).verdict is Verdict.correct


async def test_baselines_that_end_with_their_fork_server_are_replaced(
    device: Device, problem: Problem, facts: ProblemFacts
) -> None:
    report, _ = await device.compile(RIGHT, "cpp")
    assert (await device.profile(problem, facts, RIGHT, report)).verdict is Verdict.correct

    os.kill(await _fork_server_of(device), signal.SIGKILL)

    assert (await device.profile(problem, facts, RIGHT, report)).verdict is Verdict.correct


async def test_baselines_that_were_killed_while_a_candidate_is_timed_are_replaced(
    device: Device, problem: Problem, facts: ProblemFacts
) -> None:
    report, _ = await device.compile(RIGHT, "cpp")
    assert (await device.profile(problem, facts, RIGHT, report)).verdict is Verdict.correct
    task = asyncio.create_task(device.profile(problem, facts, RIGHT, report))
    await _candidate_of(device)

    os.kill(device._timing[problem.sha256]["main"].pid, signal.SIGKILL)

    assert (await task).verdict is Verdict.correct


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_timekeeper_that_was_killed_is_replaced(
    device: Device, problem: Problem, facts: ProblemFacts, when: str
) -> None:
    report, _ = await device.compile(RIGHT, "cpp")
    assert (await device.profile(problem, facts, RIGHT, report)).isolation.endswith("+frozen")
    timekeeper, before = device._launcher.timekeeper, device._launcher.timekeeper.pid
    if when == "before":
        os.kill(before, signal.SIGKILL)
        task = asyncio.create_task(device.profile(problem, facts, RIGHT, report))
    else:
        task = asyncio.create_task(device.profile(problem, facts, RIGHT, report))
        await _candidate_of(device)
        os.kill(before, signal.SIGKILL)

    profiled = await task

    assert profiled.verdict is Verdict.correct and profiled.isolation.endswith("+frozen")
    assert timekeeper.pid != before


async def test_cancelling_ends_the_candidate_and_leaves_the_device_usable(device: Device, problem: Problem) -> None:
    hanging = "def kernel(x, w):\n    while True: pass\n"
    report, _ = await device.compile(hanging, "cpp")
    task = asyncio.create_task(device.verify(problem, hanging, report))
    worker = await _candidate_of(device)
    handle = os.pidfd_open(worker)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    ended = await asyncio.to_thread(has_ended, handle)
    os.close(handle)
    assert ended, "the candidate outlived its cancelled verification"
    assert (await device.verify(problem, RIGHT, report)).verdict is Verdict.correct


async def _fork_server_of(device: Device) -> int:
    """Process id of the server that forks for ``device``: those of other tests' devices live beside it."""
    server = FORK_SERVERS.living(await device._launcher._shared_program())
    assert server is not None
    return server.pid


async def _candidate_of(device: Device) -> int:
    """Process id of the next candidate that is started."""
    loop = asyncio.get_running_loop()
    pid: asyncio.Future[int] = loop.create_future()
    spawn = device._launcher.spawn

    async def watched(role: str, **options: Any) -> object:
        worker = await spawn(role, **options)
        if role == "candidate":
            pid.set_result(worker.pid)
        return worker

    device._launcher.spawn = watched  # type: ignore[method-assign, assignment]
    try:
        return await pid
    finally:
        del device._launcher.spawn


async def test_two_candidates_at_once(device: Device, problem: Problem) -> None:
    wrong = RIGHT.replace("1e-6", "1.0")
    report, _ = await device.compile(RIGHT, "cpp")

    reports = await asyncio.gather(*(device.verify(problem, source, report) for source in (RIGHT, wrong) * 3))

    assert [report.verdict for report in reports] == [Verdict.correct, Verdict.wrong_numbers] * 3
