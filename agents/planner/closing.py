"""The last word of a session: what was found, and why it ended."""

from ...schemas import SessionClosed
from ...schemas.pool import BASELINE_NAMES
from .state import PlannedNode, PlannerState


def closing(state: PlannerState) -> SessionClosed:
    """SessionClosed as it follows from the state. A win needs an interval above 1, confirmed where it could be."""
    correct = [node for node in state.correct() if not node.inherited]
    confirmed = [node for node in correct if node.confirmed]
    best = next(iter(confirmed or correct), None)
    wins = sum(node.is_win for node in correct)
    win = best is not None and best.is_win and (best.confirmed or not confirmed)
    return SessionClosed(
        reason=state.finishing or "budget",
        best=best.name if best else "",
        win=win,
        speedup=best.speedup if best else None,
        against=best.against if best else "",
        candidates=len(state.own()),
        correct=len(correct),
        wins=wins,
        detail=_sentence(best, win),
    )


def _sentence(best: PlannedNode | None, win: bool) -> str:
    if best is None or best.speedup is None:
        return "no win found: no candidate was right"
    shown = f"{best.speedup.median:.2f}x ({best.speedup.low:.2f} to {best.speedup.high:.2f})"
    against = BASELINE_NAMES.get(best.against, best.against) or "the best baseline"
    if not win:
        return f"no win found: the best candidate stands at {shown} of {against}"
    surely = "" if best.confirmed else ", not confirmed by a second run"
    return f"{best.name} is {shown} as fast as {against}{surely}"
