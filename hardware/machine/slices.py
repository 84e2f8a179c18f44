"""Work of a process in slices: it stands still whenever somebody else is to have the machine."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..processes.messages import Failure
from ..processes.worker import Worker
from .lease import Lease, Share

POLL_SECONDS = 0.02
"""How often is looked whether somebody waits: so long a timing is held up."""

NO_LIMIT = 1e6
"""Seconds: for who asks a process that works in slices, where standing still counts."""

T = TypeVar("T")


async def make_way(share: Share, send: Callable[[signal.Signals], None], *, is_idle: bool = False) -> None:
    """Let whoever waits for the machine have it, while the process that gets what is ``send`` stands still.

    It stays so if the machine cannot be had again. ``is_idle``: it has answered, so its device is done, too.
    """
    if share.lease.is_wanted():
        send(signal.SIGSTOP)
        await share.make_way(drain_s=0.0 if is_idle else share.lease.drain_s)
        send(signal.SIGCONT)


async def making_way(
    work: Callable[[], Awaitable[T]], share: Share, send: Callable[[signal.Signals], None], *, limit_s: float
) -> T:
    """What ``work`` comes to, which a process does as the sharer ``share``, and stands still for whoever waits.

    Args:
        work: asks the process, and waits as long as it takes.
        share: held; let go of and held again.
        send: a signal to the process and to whatever it started.
        limit_s: seconds that it may work, without the time in which it stands still.

    Raises:
        TimeoutError: it worked for longer. ``work`` is cancelled.
    """
    task = asyncio.ensure_future(work())
    worked = 0.0
    # As long as others wait for it to stand still: where somebody always waits, it would never get on.
    least_s = max(POLL_SECONDS, share.lease.drain_s)
    try:
        while not task.done():
            began = time.monotonic()
            while not task.done() and worked + (slice_s := time.monotonic() - began) <= limit_s:
                if slice_s >= least_s and share.lease.is_wanted():
                    break
                await asyncio.wait({task}, timeout=POLL_SECONDS)
            worked += time.monotonic() - began
            if not task.done() and worked > limit_s:
                raise TimeoutError(f"it was not done after {limit_s:g} s of work")
            if not task.done():
                await make_way(share, send)
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def in_slices(
    work: Callable[[], Awaitable[T]], lease: Lease, send: Callable[[signal.Signals], None], *, limit_s: float
) -> T:
    """As :func:`making_way`, by a sharer of ``lease`` of its own: ``work`` begins when it may."""
    async with lease.shared(makes_way=True) as share:
        return await making_way(work, share, send, limit_s=limit_s)


async def ask_in_slices(
    worker: Worker, command: object, kind: type[T], descriptors: Sequence[int], share: Share, *, seconds: float
) -> tuple[T | Failure, list[int]]:
    """As :meth:`.Worker.ask`, while ``worker`` stands still for whoever waits; ``seconds`` are those of its work."""
    before = share.waited_s

    def work() -> Awaitable[tuple[T | Failure, list[int]]]:
        return worker.ask(command, kind, descriptors, seconds=seconds, stood=lambda: share.waited_s - before)

    return await making_way(work, share, worker.send, limit_s=NO_LIMIT)
