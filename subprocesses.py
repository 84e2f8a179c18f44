"""Starting programs in a way that can be cancelled."""

import asyncio
import contextlib
import os
import signal
from typing import Any


async def start(*command: str | os.PathLike[str], **options: Any) -> asyncio.subprocess.Process:
    """``asyncio.create_subprocess_exec`` with pipes, for a group of its own; cancelled, it leaves no process behind.

    Cancelled before it has connected the pipes, asyncio kills the process and waits for ever for their end (Python 3.11
    and 3.12). So it is let finish, which takes milliseconds, and then the group is killed.

    Raises:
        OSError: the command cannot be started.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*command, start_new_session=True, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _done(starting)
        if not starting.cancelled() and starting.exception() is None:
            await _end(starting.result())
        raise


async def reaped(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that was killed: it is short, and no cancellation leaves a zombie."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await _done(waiting)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await _done(asyncio.ensure_future(process.wait()))


async def _done(future: asyncio.Future[Any]) -> None:
    """Wait, cancelled or not: for who is cancelled already."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({future})
