"""What a search was opened for: a speedup to reach, or the machine's limit. Pure."""

from collections.abc import Sequence

from ...schemas import Interval, SessionOpened
from .state import PlannedNode, PlannerState

AT_FLOOR = 0.97
"""Roofline fraction at which nothing is left to win."""


def aim_of(
    state: PlannerState, opened: SessionOpened, speedups: Sequence[Interval | None], fraction: float | None
) -> str:
    """Which aim these numbers reach, if any: ``target`` or ``floor``."""
    lows = [speedup.low for speedup in speedups if speedup is not None]
    if opened.target is not None and lows and min(lows) >= opened.target:
        return "target"
    return "floor" if fraction is not None and fraction >= AT_FLOOR and not state.is_floor_passed else ""


def note_floor(state: PlannerState, opened: SessionOpened, fraction: float | None) -> None:
    """Heed that a candidate is faster than the roofline's floor."""
    if fraction is not None and opened.closer_diagnoses and fraction > 1.0:
        state.is_floor_passed = True


def reached(state: PlannerState, opened: SessionOpened, finalist: PlannedNode) -> str:
    """Which aim a finalist reaches, by all that counts of it."""
    if not finalist.is_correct or finalist.obstacle:
        return ""
    return aim_of(state, opened, finalist.counted, finalist.roofline_fraction)


def seeming(state: PlannerState, opened: SessionOpened) -> PlannedNode | None:
    """A candidate that reaches an aim by its first timing, which may be false: it is to be timed as a finalist.

    One that reaches a target is not, while baselines are pending: nothing is planned until a finalist was timed.
    """
    nodes = (state.nodes[name] for name in state.seeming)
    state.seeming = [node.name for node in nodes if not node.confirmed and _aim_of(state, opened, node)]
    seeming_now = (state.nodes[name] for name in state.seeming)
    return next((node for node in seeming_now if not (node.pending and _aim_of(state, opened, node) == "target")), None)


def _aim_of(state: PlannerState, opened: SessionOpened, node: PlannedNode) -> str:
    return aim_of(state, opened, [node.expected], node.roofline_fraction) if node.is_correct else ""
