"""Compares calls made one by one with batches: a kernel that computes several calls at once gains nothing there.

The inputs of all calls of a batch lie side by side, so a kernel may compute the whole batch at its first call, in large
operations and on all cores. Where the inputs of a call are written when the one before it has answered (:mod:`.steps`),
there is nothing to join. Taking turns costs some microseconds a call, which a call that does nothing shows.
"""

from collections.abc import Sequence

from ....schemas import Timing
from ..messages.timing import Time
from .interleaved import CANDIDATE, STEP_NOISE_NS, Implementation

MOST_STEPS, LEAST_STEPS = 64, 3
"""Calls that are made one by one, in each process of a candidate, where a batch has as many."""
LEAST_SHARE = 0.125
"""Of what passed, a call has taken so much at least. A loop of its own takes less for a turn than the harness's, which
is taken off. A quarter would count honest calls of 3 us as 5."""
DOUBTED = 1.5
"""Who takes so many times as long alone as among many calls computes calls together."""
BUSY = 0.2
"""Beside others that keep such a share of the cores busy nobody is doubted: they made honest calls 20 times as slow,
where threads wait for each other. The speedup is lowered all the same."""


async def time_one_by_one(implementations: Sequence[Implementation], idle: Implementation) -> dict[str, float]:
    """The median call of every implementation, nanoseconds; nothing where the candidate's have a batch each anyway.

    The candidate's are on unseen input sets and are checked like others. Batches have their sizes already.
    """
    candidate = next(implementation for implementation in implementations if implementation.name == CANDIDATE)
    if candidate.calls < 2:
        # Who is slow while batches are sized shall not have longer ones later.
        candidate.most_calls = 1
        return {}
    harness = await _median(idle, 0.0)
    return {implementation.name: await _median(implementation, harness) for implementation in implementations}


async def _median(implementation: Implementation, harness: float) -> float:
    """The median call, less what the ``harness`` takes.

    Threads that run before the inputs are there may see them while the harness's turn still lasts, and compute beside
    it: of their calls it is not taken off.
    """
    calls = min(max(implementation.calls, LEAST_STEPS), MOST_STEPS, implementation.most_calls)
    command = Time(calls=calls, warm=implementation.warm, name=implementation.name, one_by_one=True)
    timed = await implementation.ask(command)
    ns = timed.ns / calls
    return ns if timed.is_restless else max(ns * LEAST_SHARE, ns - harness)


def doubt(timing: Timing, against: str) -> str:
    """Why the candidate is not believed to be as fast as among many calls, as a clause; empty if it is."""
    if timing.shapes:
        doubts = (doubt(shape.timing, against) for shape in timing.shapes)
        return next(filter(None, doubts), "")
    name = timing.baseline(against)
    if not {name, CANDIDATE} <= timing.alone_ms.keys() or timing.background_load > BUSY:
        return ""
    among, alone = timing.median_ms, timing.alone_ms
    # Threads that wake up cost the baseline as well; one that is slower among many calls says nothing of the candidate.
    # What wakes them costs so much a call or so many times as much, which is more where calls are long.
    added = max(0.0, alone[name] - among[name])
    expected = max(among[CANDIDATE] * max(1.0, alone[name] / among[name]), among[CANDIDATE] + added)
    # A burst of other work meets the calls of one of the four times and not the others: what the interval allows the
    # ratio of two times, it is allowed here. Who hides in noise gains nothing: its speedup is lowered all the same.
    noise = timing.speedup[name].high / timing.speedup[name].median
    if alone[CANDIDATE] - STEP_NOISE_NS / 1e6 < DOUBTED * noise * expected:
        return ""
    return (
        f"it computes calls together: one of many takes {among[CANDIDATE]:.4f} ms ({name} {among[name]:.4f}), but "
        f"{alone[CANDIDATE]:.4f} ms ({name} {alone[name]:.4f}) where its inputs come after the answer before it"
    )
