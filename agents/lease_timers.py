"""Timers of leases: when one's time is over, that becomes an event. The session's tasks decide what follows."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from ..bus import Bus
from ..graph.tasks import Lease
from ..schemas import BusError, TaskExpired, seal
from .runtime import Work


class LeaseTimers:
    """One timer for each lease that this process has heard of.

    Several workers may time the same lease: the event's id follows from the lease, so it expires once. A process that
    was restarted learns of the leases with the next event of their session.
    """

    def __init__(self, bus: Bus, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._bus = bus
        self._clock_ns = clock_ns
        self._timers: dict[tuple[str, int], asyncio.Task[None]] = {}

    def arm(self, work: Work) -> None:
        """Time every lease that is held in the session of ``work``."""
        tasks = work.graph.tasks
        # A redelivered event comes with an older graph, which knows nothing of later leases.
        for name, renewals in [key for key in self._timers if (lease := tasks.lease(key[0])) and _is_past(lease, key)]:
            self._timers.pop((name, renewals)).cancel()
        for lease in tasks.held():
            if (lease.id, lease.renewals) not in self._timers:
                expiry = self._expire(lease, lease.renewals, lease.request, lease.expires_ns, work)
                self._timers[lease.id, lease.renewals] = asyncio.create_task(expiry, name=f"lease {lease.id}")

    async def close(self) -> None:
        """Forget them all: leases go on, and another process will time them."""
        timers = list(self._timers.values())
        for timer in timers:
            timer.cancel()
        if timers:
            await asyncio.wait(timers)

    async def _expire(self, lease: Lease, renewals: int, request: str, expires_ns: int, work: Work) -> None:
        await asyncio.sleep(max(0.0, (expires_ns - self._clock_ns()) / 1e9))
        expired = seal(
            TaskExpired(lease=lease.id, renewals=renewals),
            session=work.envelope.session,
            pool=work.envelope.pool,
            node=lease.node,
            cause=request,
            agent="dispatcher",
            worker="lease-timer",
            at_ns=self._clock_ns(),
        )
        with contextlib.suppress(BusError):  # the bus is lost: the session ends with it, and is resumed
            await self._bus.publish(expired)


def _is_past(lease: Lease, timed: tuple[str, int]) -> bool:
    return bool(lease.end) or lease.renewals > timed[1]
