"""Batches of one call, beside those of many: who computes several calls of a batch at once saves nothing there.

The inputs of all calls of a batch lie side by side, so a kernel may compute the whole batch at its first call, in large
operations and on all cores. A batch of one call has nothing to join. It costs more than a call among many, for
baselines as well: threads and caches have to be woken up. So times are not compared, but what is saved.
"""

from collections.abc import Sequence

from ....schemas import Timing
from ..messages.timing import Time
from .interleaved import CANDIDATE, Implementation

SHARE = 0.25
"""So much of what a call among many saves must be saved by a call of its own: the rest may be threads that wake up."""
LEAST_MS = 0.3
"""Nothing follows where a call among many saves less than this, or less than twice what a baseline's batch of one call
differs from that, in whichever direction: threads wake up, or on a busy machine share a core among many calls."""
NOISE = 0.02
"""Share of a baseline's batch of one call by which the least of several may be off."""


async def time_single_calls(implementations: Sequence[Implementation], rounds: int) -> dict[str, int]:
    """The least batch of one call of every implementation, nanoseconds; nothing where the candidate's have one anyway.

    The candidate's are on unseen input sets and are checked like others. Batches have their sizes already.
    """
    if any(implementation.calls < 2 for implementation in implementations if implementation.name == CANDIDATE):
        return {}
    least: dict[str, int] = {}
    for _ in range(rounds):
        for implementation in implementations:
            command = Time(calls=1, warm=implementation.warm, name=implementation.name)
            ns = (await implementation.ask(command)).whole_ns
            least[implementation.name] = min(ns, least.get(implementation.name, ns))
    return least


def doubt(timing: Timing, against: str) -> str:
    """Why the candidate is not believed to be as fast as among many calls, as a clause; empty if it is."""
    if timing.shapes:
        doubts = (doubt(shape.timing, against) for shape in timing.shapes)
        return next(filter(None, doubts), "")
    name = timing.baseline(against)
    if not {name, CANDIDATE} <= timing.single_ms.keys():
        return ""
    # The least of both: on a busy machine medians hold waiting, which the least of several batches does not.
    among, single = {series.name: min(series.samples_ns) / 1e6 for series in timing.series}, timing.single_ms
    saved, saved_alone = among[name] - among[CANDIDATE], single[name] - single[CANDIDATE]
    if (
        saved < max(LEAST_MS, 2 * abs(single[name] - among[name]))
        or saved_alone >= SHARE * saved - NOISE * single[name]
    ):
        return ""
    return (
        f"it computes calls together: at best one of many takes {among[CANDIDATE]:.3f} ms ({name} {among[name]:.3f}), "
        f"but a batch of one {single[CANDIDATE]:.3f} ms ({name} {single[name]:.3f})"
    )
