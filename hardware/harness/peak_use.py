"""Measures the largest use of an accelerator's memory while a step runs, over all processes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ...schemas import Accelerator, PoolError
from ..machine import nvml
from ..machine.reservations import InUse

EVERY_S = 0.25
"""How often is looked: torch keeps what it had at its peak, so that it is still there at the next look."""


def in_use_of(accelerator: Accelerator) -> int | None:
    """Bytes of the accelerator's memory that are in use, as its driver says; None if it does not."""
    try:
        return nvml.read_used_bytes(accelerator.uuid)
    except PoolError:
        return None


class PeakUse:
    """The most that was in use while :meth:`observing`."""

    def __init__(self, now: InUse) -> None:
        self.size: int | None = None
        """Bytes; None as long as nobody could tell."""
        self._now = now

    @contextlib.asynccontextmanager
    async def observing(self) -> AsyncIterator[None]:
        """Look again and again while the body runs, and once in the end."""
        looking = asyncio.create_task(self._look_always(), name="memory in use")
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await self._look()

    async def _look_always(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(EVERY_S)

    async def _look(self) -> None:
        size = await asyncio.to_thread(self._now)
        if size is not None:
            self.size = max(size, self.size or 0)
