"""Timing from outside, as interleaved timing asks for it: batches of a baseline, and what a batch costs by itself."""

from collections.abc import Awaitable, Callable

from .batch_messages import Batch
from .contest import Contestant
from .messages import IDLE, Time, Timed
from .timekeeping import TimedBatch

BATCH_NS = 8_000_000
"""A batch takes so long if there are input sets for that. Before a process is stopped, some tens of microseconds after
its answer, its other threads may still compute: that is to be little beside it."""
IDLE_BATCHES = 5


TimeBatch = Callable[[Batch], Awaitable[TimedBatch]]


async def idle_ns(batch: TimeBatch) -> int:
    """What a batch of one call takes that does nothing; ``batch`` times one of the baselines' process.

    Only that is subtracted, not what further calls cost: a candidate that makes its calls in a loop of its own does not
    pay it, and must not be given it. The least counts: whatever disturbed the others would be taken off, too.
    """
    return min([(await batch(Batch(calls=1, name=IDLE))).ns for _ in range(IDLE_BATCHES)])


def counted(batch: TimedBatch, idle_ns: int) -> Timed:
    """What counts of a batch: its calls."""
    return Timed(ns=max(1, batch.ns - idle_ns), whole_ns=batch.ns, kept=-1)


def contestant(name: str, ask: Callable[[Time], Awaitable[Timed]], most_calls: int) -> Contestant:
    """An implementation that is timed from outside."""
    return Contestant(name=name, ask=ask, copies=1, batch_ns=BATCH_NS, most_calls=most_calls)
