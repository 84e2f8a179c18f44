"""Work of a process in slices: it stands still whenever somebody else is to have the machine."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .lease import Lease, Share

POLL_SECONDS = 0.02
"""How often is looked whether somebody waits: so long a timing is held up."""

NO_LIMIT = 1e6
"""Seconds: for who asks a process that works in slices, where standing still counts."""

T = TypeVar("T")


async def make_way(share: Share, send: Callable[[signal.Signals], None]) -> None:
    """Let whoever waits for the machine have it, while the process that gets what is ``send`` stands still."""
    if not share.lease.is_wanted():
        return
    send(signal.SIGSTOP)
    try:
        await asyncio.sleep(share.lease.drain_s)
        await share.make_way()
    finally:
        send(signal.SIGCONT)


async def in_slices(
    work: Callable[[], Awaitable[T]],
    lease: Lease,
    send: Callable[[signal.Signals], None],
    *,
    limit_s: float,
) -> T:
    """What ``work`` comes to, which a process does only as a sharer of ``lease``; it has to run in the beginning.

    Args:
        work: asks the process, and waits as long as it takes.
        lease: whoever waits for it gets it.
        send: a signal to the process and to whatever it started.
        limit_s: seconds that it may work, without the time in which it stands still.

    Raises:
        TimeoutError: it worked for longer. ``work`` is cancelled; the process may stand still.
    """
    task: asyncio.Future[T] | None = None
    worked, stands_still = 0.0, False
    try:
        while task is None or not task.done():
            async with lease.shared():
                began = time.monotonic()
                if task is None:
                    task = asyncio.ensure_future(work())
                else:
                    send(signal.SIGCONT)
                    stands_still = False
                while not task.done():
                    await asyncio.wait({task}, timeout=POLL_SECONDS)
                    now = time.monotonic() - began
                    if worked + now > limit_s or lease.is_wanted():
                        break
                if not task.done():
                    send(signal.SIGSTOP)
                    stands_still = True
                    await asyncio.sleep(lease.drain_s)
                worked += time.monotonic() - began
            if worked > limit_s and not task.done():
                raise TimeoutError(f"it was not done after {limit_s:g} s of work")
        if stands_still:
            # It had answered just before it was stopped, and would never answer who asks it next.
            send(signal.SIGCONT)
        return task.result()
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
