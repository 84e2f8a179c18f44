"""A child that ends while somebody asks it: whoever waits for its end hears of it."""

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from kernelswarm.hardware.processes.channel import Channel
from kernelswarm.hardware.processes.messages import Done, Ended
from kernelswarm.hardware.processes.worker import KILL_SECONDS, Worker, WorkerDied


async def test_who_kills_a_child_that_is_asked_waits_no_longer_than_who_asks(tmp_path: Path) -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
    worker = Worker(*(ours for ours, _ in pairs), scratch=tmp_path / "scratch", label="it", answers=Done)
    (_, child), (_, reaper), (_, output) = pairs

    async def reap() -> None:
        assert await asyncio.get_running_loop().sock_recv(reaper, 1) == b"k"
        child.close()
        # Who asks hears of its channel's end first, and waits for this answer, too.
        await asyncio.sleep(0.05)
        await Channel(reaper).send(Ended(exit_code=-1, signal=signal.SIGKILL))

    reaping = asyncio.create_task(reap())
    asking = asyncio.create_task(worker.ask(Done(), Done, seconds=60))
    await asyncio.sleep(0.05)

    killing = asyncio.create_task(worker.kill())
    with pytest.raises(WorkerDied, match="SIGKILL"):
        await asking
    await reaping
    await asyncio.wait({killing}, timeout=KILL_SECONDS / 2)
    assert killing.done()
    reaper.close()
    output.close()
