"""Timing from outside for interleaved rounds: batches of a baseline, and the cost of an empty batch."""

from collections.abc import Awaitable, Callable
from statistics import median

from ..messages.batch import Batch
from ..messages.timing import IDLE, Time, Timed
from .interleaved import Implementation
from .timekeeping import TimedBatch

BATCH_NS = 8_000_000
"""A batch takes so long if there are input sets for that. Before a process is stopped, some tens of microseconds after
its answer, its other threads may still compute: that is to be little beside it."""
IDLE_BATCHES = 15
"""On a busy machine fewer may all be disturbed, and what they took be more than a batch of short calls."""


TimeBatch = Callable[[Batch], Awaitable[TimedBatch]]


async def idle_ns(batch: TimeBatch) -> int:
    """What a batch without a call takes; ``batch`` times one of the baselines' process.

    All else counts, of baselines and candidates alike: the harness's loop, and state that is put back and copied. Who
    leaves it out would be credited what it does not pay.
    """
    # The least: whatever disturbed one of them would be taken off what the calls of others took.
    return min([(await batch(Batch(calls=0, name=IDLE))).ns for _ in range(IDLE_BATCHES)])


def counted(batch: TimedBatch, idle_ns: int) -> Timed:
    """What counts of a batch: its calls, and half of it at least. Of calls that were made one by one, the median.

    Where a batch of few short calls takes little more than an empty one, the difference says nothing: an honest kernel
    would be faster than the machine. So nobody looks faster than half of what passed.
    """
    if batch.steps_ns:
        ns = round(median(batch.steps_ns)) * batch.calls
        return Timed(ns=ns, whole_ns=batch.ns, kept=-1, is_restless=batch.is_restless)
    return Timed(ns=max(1, batch.ns - idle_ns, batch.ns // 2), whole_ns=batch.ns, kept=-1)


def implementation(name: str, ask: Callable[[Time], Awaitable[Timed]], most_calls: int) -> Implementation:
    """An implementation that is timed from outside."""
    return Implementation(name=name, ask=ask, copies=1, batch_ns=BATCH_NS, most_calls=most_calls)
