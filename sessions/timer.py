"""The timer of a session: that its minutes are over reaches it as events."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..schemas import DEADLINE, IDLE, BusError


class Running(Protocol):
    """A search that is under way (:class:`.search.Search`)."""

    async def stop(self, reason: str) -> None:
        """Ask it to end."""

    async def end_orphaned(self) -> None:
        """Stop following it once it goes nowhere."""


class WaitsForOutside(Protocol):
    """A search that may wait for outside authors (:class:`.search.Search`)."""

    @property
    def idle_s(self) -> float:
        """Seconds since something happened, while it waits for nobody else."""

    async def stop(self, reason: str) -> None:
        """Ask it to end."""


@contextmanager
def timed(search: Running, minutes: float | None, reserve: float = 0.0, *, is_asked: bool = False) -> Iterator[None]:
    """The timer, while the body runs: asks ``search`` to end after ``minutes`` (None: it was asked before).

    With a ``reserve`` it asks for no more plans so many minutes earlier (``is_asked``: that was done), and at the end
    for the close.
    """
    timer = asyncio.create_task(_keep_time(search, minutes, reserve, is_asked), name="minutes")
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def idle_limit(search: WaitsForOutside, limit_s: float) -> Iterator[None]:
    """While the body runs, ask ``search`` to confirm what it has once it was idle for ``limit_s`` seconds."""
    watch = asyncio.create_task(_end_idle(search, limit_s), name="idle limit")
    try:
        yield
    finally:
        watch.cancel()


async def _end_idle(search: WaitsForOutside, limit_s: float) -> None:
    with contextlib.suppress(BusError):
        while (left := limit_s - search.idle_s) > 0:  # noqa: ASYNC110 - it is time that passes, no event
            await asyncio.sleep(left)
        await search.stop(IDLE)


async def _keep_time(search: Running, minutes: float | None, reserve: float, is_asked: bool) -> None:
    with contextlib.suppress(BusError):  # the bus is lost: whoever follows the session says so
        if minutes is not None:
            await asyncio.sleep((minutes - reserve) * 60)
            if not is_asked:
                await search.stop("minutes")
            if reserve:
                await asyncio.sleep(min(reserve, minutes) * 60)
                await search.stop(DEADLINE)
        await search.end_orphaned()
