"""What decided that a session has no win, and what its user may do about it: the end of its last sentence."""

from ...schemas import Interval, SessionOpened
from ...schemas.timing import LARGEST_REACH
from .state import PlannedNode

_STOPPED = ("interrupted", "user")
_WITHOUT_MORE = ("exhausted", "floor", "idle", *_STOPPED)
"""Reasons of a close after which more candidates, or more time, are no way out of their own."""
NEAR_ROOFLINE = 0.9
"""From this share on no further kernel, and no calmer machine, comes to a win."""


def deciding(node: PlannedNode) -> Interval | None:
    """Of the intervals that count, the one that is furthest from a win."""
    return min(node.counted, key=lambda interval: interval.low, default=None)


def verdict_of(interval: Interval, intervals: int) -> str:
    """What a win's interval has to be, and how far this one is from it; ``intervals`` count in all."""
    needed = "both intervals" if intervals > 1 else "an interval"
    if interval.is_noise:
        why = f"this one is {interval.low:.2f} to {interval.high:.2f}, more than a factor of {LARGEST_REACH:g}"
    elif interval.high < 1.0:
        why = "all of this one lies below"
    else:
        why = f"this one begins at {interval.low:.4g}"
    return f"a win needs {needed} above 1, and {why}"


def ways_out(
    opened: SessionOpened, reason: str, interval: Interval | None = None, fraction: float | None = None
) -> str:
    """What may come to a win, as the options that do it; empty where candidates were given, not searched for, and where
    somebody stopped the search before anything was timed.

    Args:
        opened: the session.
        reason: of its close.
        interval: the one that decided; None where nothing was timed.
        fraction: of the roofline, which the best candidate reaches; None where that is not known.
    """
    if opened.candidates or (interval is None and reason in _STOPPED):
        return ""
    if fraction is not None and NEAR_ROOFLINE <= fraction <= 1.0:
        there = "these shapes" if len(opened.facts.timed) > 1 else "this shape"
        return f"it reaches {fraction:.0%} of the roofline, so that hardly any kernel is faster at {there}"
    ways = []
    if interval is not None and interval.low <= 1.0 <= interval.high:
        ways.append("a run while less else is at work here, whose interval is narrower")
    if reason == "minutes" and opened.minutes is not None:
        ways.append(f"more time (--minutes {2 * opened.minutes:g})")
    elif reason not in _WITHOUT_MORE:
        ways.append(f"more candidates (--budget {2 * opened.budget})")
    ways += ["another author (--author)", "another shape in the problem"]
    return f"what may help: {', '.join(ways[:-1])} or {ways[-1]}"
