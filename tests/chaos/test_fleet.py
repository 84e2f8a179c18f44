"""The fleet's operator, who starts the server again once its disk was full."""

import asyncio
import os
from pathlib import Path

from kernelswarm.bus.server import Server
from kernelswarm.tests.chaos.disk import Disk
from kernelswarm.tests.chaos.fleet import Fleet

LATE = b"[1] 2026/11/22 09:46:16.119552 [ERR] JetStream failed to store a msg: write 1.blk: no space left on device\n"


async def test_a_server_is_started_again_even_if_its_log_tells_late(tmp_path: Path) -> None:
    """The line that told first was cut off: the log lies on the full disk as well."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    server = Server(tmp_path, lock)
    await server.start()
    try:
        fleet, before = Fleet(tmp_path, server, Disk(tmp_path, "not here")), server.pid
        async with fleet.storing(), asyncio.timeout(60):
            with (tmp_path / "server.log").open("ab") as log:
                log.write(LATE[:60])
            # Long enough for a look that finds nothing to act on.
            await asyncio.sleep(0.1)
            with (tmp_path / "server.log").open("ab") as log:
                log.write(LATE)
            while fleet.server_turn.locked() or server.pid == before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert not server.choked()
    finally:
        await server.stop()
        os.close(lock)
