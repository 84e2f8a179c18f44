"""What a session taught, by rules. Pure, so that a replay can hold it against the log."""

from ...graph.session_graph import NodeRecord, SearchGraph
from ...knowledge import Trial, distill
from ...schemas import SessionClosed, SessionOpened, SkillDistilled, Verdict


def lesson(opened: SessionOpened, graph: SearchGraph, session: str, closed: SessionClosed) -> SkillDistilled | None:
    """What the session taught; None if it teaches nothing yet, or only judged what somebody handed in."""
    if opened.evaluation:
        return None
    skill = distill(
        opened.problem, opened.facts, opened.pool, trials_of(graph), session=session, against=closed.against
    )
    return None if skill is None else SkillDistilled(skill=skill)


def trials_of(graph: SearchGraph) -> list[Trial]:
    """Every diagnosed node of the session's own, as the distiller looks at it: its parent teaches what it learned."""
    return [_trial(node) for node in graph.own() if node.diagnosis is not None]


def _trial(node: NodeRecord) -> Trial:
    diagnosis = node.confirmation_diagnosis or node.diagnosis
    assert diagnosis is not None
    return Trial(
        node=node.name,
        parent=node.parent,
        recipe=node.candidate.recipe if node.candidate else {},
        verdict=diagnosis.verdict,
        speedup=diagnosis.fitness if diagnosis.verdict is Verdict.correct else 0.0,
        interval=diagnosis.speedup,
        confirmed=node.confirmation_diagnosis is not None,
        bottleneck=str(diagnosis.bottleneck),
        rationale=node.candidate.rationale if node.candidate else "",
        evidence=tuple(node.event_ids[-1:]),
    )
