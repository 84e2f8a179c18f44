"""The skill distiller: what did this session teach?"""

from collections.abc import Sequence

from ..knowledge import Trial, distill
from ..schemas import Event, SessionClosed, SkillDistilled, Verdict
from .graph import NodeRecord, SearchGraph
from .runtime import Answer, Work


class Distiller:
    """Writes a skill with its evidence from every session that timed something. Pure: it reads events only."""

    role = "distiller"
    consumes: tuple[type[Event], ...] = (SessionClosed,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Distill one session; one without a correct candidate teaches nothing yet."""
        closed, opened = work.event, work.opened
        assert isinstance(closed, SessionClosed)
        skill = distill(
            opened.problem,
            opened.facts,
            opened.pool,
            trials_of(work.graph),
            session=work.envelope.session,
            against=closed.against,
        )
        return [] if skill is None else [Answer(SkillDistilled(skill=skill))]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """A skill that cannot be written is not written; the session stands without it."""
        return []

    async def close(self) -> None:
        """Nothing to release."""


def trials_of(graph: SearchGraph) -> list[Trial]:
    """Every diagnosed node as the distiller looks at it."""
    return [_trial(node) for node in graph.nodes.values() if node.diagnosis is not None]


def _trial(node: NodeRecord) -> Trial:
    told = node.confirmation_diagnosis or node.diagnosis
    assert told is not None
    return Trial(
        node=node.name,
        parent=node.parent,
        recipe=node.candidate.recipe if node.candidate else {},
        verdict=told.verdict,
        speedup=told.fitness if told.verdict is Verdict.correct else 0.0,
        interval=told.speedup,
        confirmed=node.confirmation_diagnosis is not None,
        bottleneck=str(told.bottleneck),
        rationale=node.candidate.rationale if node.candidate else "",
        evidence=tuple(node.event_ids[-1:]),
    )
