"""The last word of a session: what was found, and why it ended."""

from collections.abc import Sequence

from ...schemas import Interval, SessionClosed
from ...schemas.pool import BASELINE_NAMES
from .state import PlannedNode, PlannerState


def closing(state: PlannerState) -> SessionClosed:
    """SessionClosed as it follows from the state. A win needs intervals above 1, confirmed where it could be."""
    correct = [node for node in state.correct() if not node.inherited]
    confirmed = [node for node in correct if node.confirmed]
    best = _best(confirmed or correct)
    # Where ordinary processes have their say, only finalists were timed there.
    has_ordinary = any(node.ordinary or node.ordinary_missing for node in confirmed)
    wins = sum(node.is_win for node in (confirmed if has_ordinary else correct))
    win = best is not None and best.is_win and (best.confirmed or not confirmed)
    ordinary = best is not None and best.ordinary is not None
    return SessionClosed(
        reason=state.finishing or "budget",
        best=best.name if best else "",
        win=win,
        speedup=best.reported if best else None,
        against=(best.ordinary_against or best.against) if best else "",
        judged=best.speedup if best and ordinary else None,
        judged_against=best.against if best and ordinary else "",
        candidates=len(state.own()),
        correct=len(correct),
        wins=wins,
        detail=_sentence(best, win, state.opened.against if state.opened else "best"),
    )


def _best(nodes: Sequence[PlannedNode]) -> PlannedNode | None:
    """A win before what is none, the fastest of them. ``nodes``: the fittest first, which is what counts where nothing
    was measured in ordinary processes."""
    if not any(node.ordinary or node.ordinary_missing for node in nodes):
        return next(iter(nodes), None)
    return max(nodes, key=_rank)


def _rank(node: PlannedNode) -> tuple[bool, bool, float]:
    return node.is_win, node.ordinary is not None, node.reported.median if node.reported else 0.0


def _sentence(best: PlannedNode | None, win: bool, wanted: str) -> str:
    if best is None or best.speedup is None:
        return "no win found: no candidate was right"
    judged = f"{_shown(best.speedup)} of {_baseline(best.against)} by the judge"
    if best.ordinary_missing:
        return f"no win found: {best.name} was not timed in ordinary processes: {best.ordinary_missing} ({judged})"
    shown, against = _shown(best.reported or best.speedup), _baseline(best.ordinary_against or best.against)
    beside = f" in ordinary processes ({judged})" if best.ordinary else ""
    missing = f"; {_baseline(wanted)} could not be timed" if wanted not in ("best", best.against) else ""
    if not win:
        return f"no win found: the best candidate stands at {shown} of {against}{beside}{missing}"
    surely = "" if best.confirmed else ", not confirmed by a second run"
    return f"{best.name} is {shown} as fast as {against}{beside}{surely}{missing}"


def _shown(speedup: Interval) -> str:
    return f"{speedup.median:.2f}x ({speedup.low:.2f} to {speedup.high:.2f})"


def _baseline(name: str) -> str:
    return BASELINE_NAMES.get(name, name) or "the best baseline"
