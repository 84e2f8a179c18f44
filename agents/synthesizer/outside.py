"""Outside authors as a synthesizer backend: a plan becomes a task, and somebody's file a candidate."""

from collections.abc import Sequence

from ...graph.tasks import CHECKS, HandIn, Permit
from ...hardware.languages.assembly import language_in
from ...schemas import OUTSIDE, CandidateProposed, Event, TaskOpened
from .. import runtime
from ..runtime import Work
from .backend import Answer, Request


class OutsideBackend:
    """Answers a plan with a task. What comes of that are events of their own, whenever they come."""

    name = OUTSIDE

    def check(self, model: str) -> None:
        """Nothing can be missing: authors come later."""

    async def synthesize(self, request: Request) -> Answer:
        """Offer the task."""
        return Answer(task=TaskOpened(checks=CHECKS))

    async def close(self) -> None:
        """Nothing to release."""


def ruled(work: Work) -> Sequence[runtime.Answer]:
    """What the session's task board says to the event of ``work``."""
    answers = []
    for ruling in work.graph.tasks.rulings.get(work.envelope.id, ()):
        match ruling.outcome:
            case Permit():
                pass  # whoever checks says what came of it
            case HandIn():
                answers.append(runtime.Answer(_candidate(ruling.outcome, ruling.node, work), ruling.node))
            case Event():
                answers.append(runtime.Answer(ruling.outcome, ruling.node))
    return answers


def _candidate(hand_in: HandIn, node: str, work: Work) -> CandidateProposed:
    submitted, opened, plan = hand_in.submitted, work.opened, work.graph.tasks.tasks[node].plan
    return CandidateProposed(
        source=submitted.source,
        sha256=submitted.sha256,
        language=language_in(submitted.source, opened.pool, opened.language),
        backend=OUTSIDE,
        rationale=submitted.rationale,
        parents=tuple(filter(None, (plan.parent, plan.second))),
    )
