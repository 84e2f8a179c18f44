"""What a child prints is taken now and then: reading a flood of it would take the core on which others are timed."""

import asyncio
import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from kernelswarm.hardware.processes import worker as worker_module
from kernelswarm.hardware.processes.messages import Done
from kernelswarm.hardware.processes.worker import OUTPUT_BYTES, Worker


@pytest.mark.asyncio
async def test_a_flood_is_read_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = Worker._read_output

    def counted(self: Worker) -> None:
        reads.append(1)
        read(self)

    monkeypatch.setattr(Worker, "_read_output", counted)
    pairs = [socket.socketpair() for _ in range(3)]
    worker = Worker(*(ours for ours, _ in pairs), scratch=tmp_path / "scratch", label="it", answers=Done)

    def flood() -> None:
        with contextlib.suppress(OSError):
            while True:
                pairs[2][1].send(b"x" * 65536)

    thread = threading.Thread(target=flood)
    began = time.monotonic()
    thread.start()
    await asyncio.sleep(0.5)
    worker.abandon()
    seconds = time.monotonic() - began
    thread.join(10.0)
    assert not thread.is_alive() and worker.output == "x" * OUTPUT_BYTES
    assert 2 < len(reads) <= 2 + seconds / worker_module.OUTPUT_SECONDS
    for _, theirs in pairs:
        theirs.close()


@pytest.mark.asyncio
async def test_two_may_end_it_at_once(tmp_path: Path) -> None:
    """A timing that is given up, and whoever closes the device."""
    pairs = [socket.socketpair() for _ in range(3)]
    worker = Worker(*(ours for ours, _ in pairs), scratch=tmp_path / "scratch", label="it", answers=Done)
    ends = [asyncio.ensure_future(worker.kill()) for _ in range(2)]
    await asyncio.sleep(0)
    for _, theirs in pairs:
        theirs.close()
    await asyncio.gather(*ends)
    assert not worker.alive
