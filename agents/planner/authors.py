"""Which author writes the next node where there are several: by shares, as far as they have something to give."""

from ...schemas import OUTSIDE, AuthorBenched, AuthorShare, Intent, NodeDiagnosed, SessionOpened, Verdict
from .state import AuthorRecord, PlannedNode, PlannerState

BENCHED_AFTER = 20
"""Syntheses of one author that fail in a row, whatever the reason: after that the session goes on without it."""

OPEN_TASKS = 3
"""Nodes that wait for outside authors at once, where others write as well: those do not stop meanwhile."""


def has_shares(opened: SessionOpened | None) -> bool:
    """Whether several authors share the session's nodes."""
    return opened is not None and len(opened.authors) > 1


def next_author(state: PlannerState, opened: SessionOpened) -> str:
    """Backend of the next new node: of those that are left, the one that is furthest behind its share.

    Shares are dealt out as seats are by Webster's method (Sainte-Laguë): interleaved, and in any number of nodes as
    near to the shares as whole nodes can be.
    """
    author = author_due(state, opened)
    if has_shares(opened):
        _record(state, author).planned += 1
    return author


def author_due(state: PlannerState, opened: SessionOpened) -> str:
    """Backend that the next new node would go to; nothing is counted."""
    if not has_shares(opened):
        return opened.synthesizer
    left = writers(state, opened) or list(opened.authors)
    return max(left, key=lambda author: author.share / (2 * _record(state, author.name).planned + 1)).name


def writers(state: PlannerState, opened: SessionOpened) -> list[AuthorShare]:
    """Those of several authors that may write the next node.

    Outside authors take hours where others take seconds. So the others go on while tasks wait, but leave them their
    share of the budget.
    """
    left = [author for author in opened.authors if not _record(state, author.name).is_out]
    if OUTSIDE not in [author.name for author in left]:
        return left
    shares = sum(author.share for author in opened.authors)
    waiting = sum(state.nodes[name].plan.synthesizer == OUTSIDE for name in state.in_flight)
    return [
        author
        for author in left
        if (
            waiting < OPEN_TASKS
            if author.name == OUTSIDE
            else _record(state, author.name).planned * shares < opened.budget * author.share
        )
    ]


def count_outcome(state: PlannerState, node: PlannedNode, event: NodeDiagnosed) -> None:
    """Note how a node of one of several authors ended; one that fails on and on, or is exhausted, gets no more."""
    opened = state.opened
    if opened is None or not has_shares(opened):
        return
    record = _record(state, node.plan.synthesizer)
    if event.verdict is not Verdict.synthesis_failed:
        record.failures, record.alike, record.reason = 0, 0, ""
        return
    state.unmade += 1
    if opened.forgives_withdrawn and state.finishing and node.plan.synthesizer == OUTSIDE:
        return  # its tasks were taken back
    record.failures += 1
    if not event.retryable:
        record.alike = record.alike + 1 if node.failure == record.reason else 1
        record.reason = node.failure
    fails_alike = 0 < opened.failures_alike <= record.alike
    is_out = event.exhausted or fails_alike or record.failures >= BENCHED_AFTER
    if is_out and not record.is_out and opened.heeds_authors:
        benched = AuthorBenched(
            author=node.plan.synthesizer, reason=node.failure, exhausted=event.exhausted, failures=record.failures
        )
        state.benched.append(benched)
    record.is_out = record.is_out or is_out


def is_on_trial(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether as many nodes are under way as the session allows until one of them has a candidate, those that have just
    failed for one reason included: they are what ends it."""
    tried = len(state.in_flight) + state.failures_alike
    if not state.in_flight or not 0 < opened.trial_nodes <= tried:
        return False
    written = (node for node in state.own() if node.plan.intent is not Intent.remeasure)
    return not any(node.verdict is not None and not node.synthesis_failed for node in written)


def all_out(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether none of several authors is left."""
    return has_shares(opened) and all(_record(state, author.name).is_out for author in opened.authors)


def _record(state: PlannerState, name: str) -> AuthorRecord:
    return state.authors.setdefault(name, AuthorRecord())
