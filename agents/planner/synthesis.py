"""What the planner makes of plans that brought no candidate: when to stop, and what the close says of them.

Sessions opened by older versions have no limit (``failures_alike`` is 0): they went on to their budget, and counted
every node as a candidate. Their replay must do the same.
"""

from msgspec.structs import replace

from ...schemas import FINISHED, IDLE, REFERENCE_DIED, NodeDiagnosed, SessionClosed, SessionOpened, Verdict
from .state import PlannedNode, PlannerState
from .ways_out import ways_out

NOTHING_TO_TRY = "nothing_to_try"
"""Reason of a close: the search ended by itself, and not one candidate was made."""

MUCH_OF_MINUTES = 0.1
"""Share of its minutes that validation took, from which on a session that judged nothing says so."""

NO_CANDIDATE = "no candidate was made: "
"""Before the reasons, in a session's last sentence."""

CUT_SHORT = frozenset({"interrupted", "minutes", FINISHED, IDLE})
"""Reasons that say nothing of whether a candidate could be made."""


def count_failure(state: PlannerState, event: NodeDiagnosed) -> None:
    """Count how many syntheses in a row failed for the reason that ``event`` gives."""
    if event.verdict is not Verdict.synthesis_failed:
        state.failure, state.failures_alike = "", 0
        return
    reason = failure_reason(event)
    state.failures_alike = state.failures_alike + 1 if reason == state.failure else 1
    state.failure = reason


def fails_alike(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether synthesis failed so often in one way that another plan would fail as well."""
    return 0 < opened.failures_alike <= state.failures_alike


def failure_reason(event: NodeDiagnosed) -> str:
    """Why there is no candidate, in the synthesizer's words."""
    return next((finding.meaning for finding in event.evidence if finding.name == "backend"), event.summary)


def with_true_counts(closed: SessionClosed, state: PlannerState) -> SessionClosed:
    """``closed`` with the candidates that were judged; without a best one it says whether any was made, and why not."""
    opened = state.opened
    if opened is None or not opened.failures_alike:
        return closed
    judged = [node for node in state.own() if node.verdict is not None and not node.synthesis_failed]
    closed = replace(closed, candidates=len(judged))
    benched = [author.sentence for author in state.benched if not author.exhausted]
    if closed.best:
        return replace(closed, detail="; ".join([closed.detail, *benched])) if benched else closed
    if closed.reason == REFERENCE_DIED:
        return replace(closed, detail=f"no win found: {state.obstacle}")
    if judged:
        return replace(closed, detail=_with_ways_out(_none_right(judged), opened, closed.reason))
    if closed.reason == "minutes" and opened.reserve:
        return replace(closed, detail=f"no win found: {_over(opened)}")
    if closed.reason in CUT_SHORT:
        sentence = "no win found: it ended before a candidate was judged"
        return replace(closed, detail=_with_ways_out(sentence, opened, closed.reason))
    return replace(closed, reason=NOTHING_TO_TRY, detail=f"{NO_CANDIDATE}{_reasons(state.own())}")


def _with_ways_out(sentence: str, opened: SessionOpened, reason: str) -> str:
    return "; ".join(filter(None, [sentence, ways_out(opened, reason) if opened.explains_losses else ""]))


def _over(opened: SessionOpened) -> str:
    """That its minutes were too few, and how many to give. Older sessions named no option."""
    if not opened.trusts_finalists or opened.minutes is None:
        return "its time was over before a candidate was judged; give it more"
    minutes = f"{opened.minutes:g} minute{'s' if opened.minutes != 1 else ''}"
    is_much = opened.spent_s > MUCH_OF_MINUTES * 60 * opened.minutes
    spent = f" (validation took {opened.spent_s:.0f} s of {60 * opened.minutes:.0f})" if is_much else ""
    return f"its {minutes} ended before a candidate was judged{spent}; give it more (--minutes {2 * opened.minutes:g})"


def _none_right(judged: list[PlannedNode]) -> str:
    if len(judged) == 1:
        return f"no win found: the only candidate was not right: {judged[0].summary}"
    counted = f"no win found: none of {len(judged)} candidates was right"
    summaries = {node.summary for node in judged}
    return f"{counted}, all for one reason: {summaries.pop()}" if len(summaries) == 1 else counted


def _reasons(nodes: list[PlannedNode]) -> str:
    return "; ".join(dict.fromkeys(node.failure for node in nodes if node.failure)) or "the synthesizer did not say why"
