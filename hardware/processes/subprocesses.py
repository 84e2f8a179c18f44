"""Starting programs, and ending them, in a way that can be cancelled and does not hang."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import Any

_START_SECONDS = 0.5
"""Connecting the pipes takes milliseconds."""
_POLL_SECONDS = 0.005


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
        await _started(starting)
        if not starting.cancelled() and starting.exception() is None:
            await _uncancelled(_end(starting.result()))
        raise


async def start_on_socket(
    module: str, *arguments: str, **options: Any
) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """Start ``python -m module`` with the number of a socket as its first argument; this side has the other end.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            command = (sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments)
            pipes = {"stdin": asyncio.subprocess.DEVNULL, "pass_fds": (theirs.fileno(),)}
            return await start(*command, **pipes, **options), ours
    except BaseException:
        ours.close()
        raise


async def reaped(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that was killed: it is short, and no cancellation leaves a zombie.

    Not for the end of its pipes, as ``process.wait()`` does: they may be full and nobody reads, or held by others.
    """
    ending = asyncio.ensure_future(_reap(process))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await _uncancelled(ending)
        raise


async def _reap(process: asyncio.subprocess.Process) -> None:
    while process.returncode is None:  # noqa: ASYNC110 - nothing tells of the process without its pipes
        await asyncio.sleep(_POLL_SECONDS)
    process._transport.close()  # type: ignore[attr-defined] # closes the pipes, for which nothing else is offered
    await process.wait()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await _reap(process)


async def _started(starting: asyncio.Future[Any]) -> None:
    """Wait for the start, cancelled or not. A loop that closes has cancelled the start itself, which then waits for
    ever: cancelled once more it does not.
    """
    while not starting.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({starting}, timeout=_START_SECONDS)
            if not starting.done():
                starting.cancel()


async def _uncancelled(work: Any) -> None:
    """Wait for what is short, cancelled or not: for who is cancelled already."""
    future = asyncio.ensure_future(work)
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({future})
