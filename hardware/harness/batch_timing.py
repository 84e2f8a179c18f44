"""Timing from outside, as interleaved timing asks for it: batches of a baseline, and what a batch costs by itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .batch_messages import Batch
from .contest import Contestant
from .messages import IDLE, Time, Timed
from .timekeeping import TimedBatch

BATCH_NS = 8_000_000
"""A batch takes so long if there are input sets for that. Before a process is stopped, some tens of microseconds after
its answer, its other threads may still compute: that is to be little beside it."""
IDLE_BATCHES = 5


@dataclass
class IdleCost:
    """What a batch of calls that do nothing takes, by its calls. Measured in the baselines' process."""

    one_ns: float = 0.0
    """Of one call."""
    call_ns: float = 0.0
    """Of each further one."""

    def of(self, calls: int) -> float:
        """Nanoseconds of a batch."""
        return self.one_ns + self.call_ns * (calls - 1)


TimeBatch = Callable[[Batch], Awaitable[TimedBatch]]


async def idle_cost(batch: TimeBatch, most_calls: int) -> IdleCost:
    """Measure it; ``batch`` times one of the baselines' process."""

    async def cost(calls: int) -> float:
        # The least: whatever disturbed one of them would be taken off what the calls of others took.
        return min([(await batch(Batch(calls=calls, name=IDLE))).ns for _ in range(IDLE_BATCHES)])

    one = await cost(1)
    most = await cost(most_calls) if most_calls > 1 else one
    return IdleCost(one, max(0.0, (most - one) / max(1, most_calls - 1)))


def counted(batch: TimedBatch, calls: int, idle: IdleCost) -> Timed:
    """What counts of a batch: its calls."""
    return Timed(ns=max(1, round(batch.ns - idle.of(calls))), whole_ns=batch.ns, kept=-1)


def contestant(name: str, ask: Callable[[Time], Awaitable[Timed]], most_calls: int) -> Contestant:
    """An implementation that is timed from outside."""
    return Contestant(name=name, ask=ask, copies=1, batch_ns=BATCH_NS, most_calls=most_calls)
