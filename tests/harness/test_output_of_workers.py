"""What a child prints is taken now and then: reading a flood of it would take the core on which others are timed."""

import asyncio
import contextlib
import socket
import threading
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
    thread.start()
    await asyncio.sleep(0.5)
    worker.abandon()
    thread.join(10.0)
    assert not thread.is_alive() and worker.output == "x" * OUTPUT_BYTES
    assert 2 < len(reads) <= 2 + 0.5 / worker_module.OUTPUT_SECONDS
    for _, theirs in pairs:
        theirs.close()
