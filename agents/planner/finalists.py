"""Finalists: which candidates are timed once more, longer, and which take the place of those that it refutes. Pure."""

import math
from collections.abc import Sequence

from ...schemas import ConfirmationPlanned, Interval, SessionOpened, Verdict
from .state import PlannedNode, PlannerState

FINALISTS = 3
"""Candidates that are timed once more before the session closes."""

MORE_PROCESSES = (8, 16)
"""In how many processes a finalist is timed once its first confirmation, and the one after that, decided nothing."""


def first_finalists(state: PlannerState, opened: SessionOpened) -> list[PlannedNode]:
    """Correct nodes to be timed once more, best first; none that cannot win, and one alone when time is over."""
    count = _count(opened)
    if state.finishing == "minutes" and opened.hopeless_below > 0:
        count = 1
    return _ranked(state, opened)[: max(1, count)] or _not_compared(state, opened)


def _not_compared(state: PlannerState, opened: SessionOpened) -> list[PlannedNode]:
    """The best, if a baseline joined since it was timed: what it lost against is not known but by other timings."""
    if not opened.compares_late or _is_late(state, opened):
        return []
    best = [node for node in state.correct() if not node.inherited][:1]
    return [node for node in best if node.joined_ratio != 1.0]


def may_win(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether a finalist may turn out to be a win. In older sessions each may."""
    finalists = first_finalists(state, opened)
    if opened.awaits_verdicts:
        finalists = [node for node in finalists if node.expected is None or node.expected.high > 1.0]
    return bool(finalists)


def further_finalists(state: PlannerState, opened: SessionOpened) -> list[PlannedNode]:
    """Who is timed once some were: those that are undecided, those that take a place that is free, or the next best
    while a deadline ends all."""
    return _undecided(state, opened) or _in_free_places(state, opened) or _next_in_time(state, opened)


def is_refuted(node: PlannedNode, first: Interval | None) -> bool:
    """Whether a finalist, timed anew, shows that its ``first`` timing was false: it is wrong, cannot be a win, or is
    none and slower than all that was said at first. That the harness failed says nothing of it."""
    if not node.is_correct or node.obstacle:
        return node.verdict is not Verdict.harness_error
    return not node.is_win and first is not None and any(interval.high < first.low for interval in node.counted)


def confirmation(node: PlannedNode, rank: int) -> ConfirmationPlanned:
    """The order to time ``node`` as a finalist, in more processes each time."""
    if not node.confirmations:
        return ConfirmationPlanned(rank=rank)
    return ConfirmationPlanned(rank=rank, processes=MORE_PROCESSES[min(node.confirmations, len(MORE_PROCESSES)) - 1])


def _count(opened: SessionOpened) -> int:
    return int(opened.policy_options.get("finalists", FINALISTS))


def _ranked(state: PlannerState, opened: SessionOpened, without: Sequence[PlannedNode] = ()) -> list[PlannedNode]:
    """Correct nodes that may win, best first."""
    correct = [
        node
        for node in state.correct()
        if not (node.inherited or node in without or (node.expected and node.expected.high < opened.hopeless_below))
    ]
    # By the interval's low end: a lucky median comes with a wide interval, and must not be the only finalist.
    return sorted(correct, key=lambda node: -(node.expected.low if node.expected else 0.0))


def _undecided(state: PlannerState, opened: SessionOpened) -> list[PlannedNode]:
    """Finalists that more samples may show to be wins: the best of them. None once there is a win, or the time is over.

    Others follow if it is none; older sessions timed all of them at once, however wide their intervals.
    """
    confirmed = [node for node in state.own() if node.confirmed]
    if _is_late(state, opened) or any(node.is_correct and node.is_win for node in confirmed):
        return []
    undecided = [node for node in confirmed if node.is_undecided and node.confirmations < opened.confirmations]
    if not opened.trusts_finalists:
        return undecided
    undecided = [node for node in undecided if all(map(_may_end_above_one, node.counted))]
    return sorted(undecided, key=lambda node: -min(interval.low for interval in node.counted))[:1]


def _may_end_above_one(interval: Interval) -> bool:
    """Whether it would be a win if its median stayed and it became as narrow as twice the processes make it.

    On a machine whose times scatter more than that, twelve candidates were judged in 42 s, and finalists timed for
    another 374 and 200 without a decision.
    """
    return interval.median * math.pow(max(0.0, interval.low) / interval.median, math.sqrt(0.5)) > 1.0


def _in_free_places(state: PlannerState, opened: SessionOpened) -> list[PlannedNode]:
    """The next best candidates, where fewer than the usual number of finalists stood. None once the time is over."""
    if not opened.trusts_finalists or _is_late(state, opened):
        return []
    confirmed = [node for node in state.own() if node.confirmed]
    places = max(1, _count(opened)) - _standing(confirmed)
    return _ranked(state, opened, confirmed)[: max(0, places)]


def _standing(confirmed: Sequence[PlannedNode]) -> int:
    """How many of them nothing has refuted. In older sessions nothing does."""
    return sum(not node.is_refuted for node in confirmed)


def _is_late(state: PlannerState, opened: SessionOpened) -> bool:
    return state.finishing == "minutes" or (state.is_out_of_time and opened.hopeless_below > 0)


def _next_in_time(state: PlannerState, opened: SessionOpened) -> list[PlannedNode]:
    """Once time is nearly over: the next best candidate after a finalist that is no win, or one that was judged since
    and is faster than a win, while a deadline ends all."""
    confirmed = [node for node in state.own() if node.confirmed]
    wins = [node.expected.low for node in confirmed if node.is_win and node.expected]
    if state.finishing != "minutes" or not opened.reserve or (wins and not opened.awaits_hand_ins):
        return []
    count = _count(opened)
    ranked = _ranked(state, opened, confirmed)
    if wins:
        ranked = [node for node in ranked if node.expected and node.expected.low > max(wins)]
    return ranked[:1] if _standing(confirmed) < count else []
