"""What a session taught, by rules. Pure, so that a replay can hold it against the log."""

from ...graph.session_graph import NodeRecord, SearchGraph
from ...knowledge import Trial, distill
from ...schemas import SessionClosed, SessionOpened, SkillDistilled, Verdict


def lesson(opened: SessionOpened, graph: SearchGraph, session: str, closed: SessionClosed) -> SkillDistilled | None:
    """What the session taught; None if it teaches nothing yet, or only judged what somebody handed in."""
    if opened.evaluation:
        return None
    trials = trials_of(graph, closely=opened.closer_diagnoses)
    skill = distill(
        *(opened.problem, opened.facts, opened.pool, trials),
        session=session,
        against=closed.against,
        names_unconfirmed=opened.trusts_finalists,
    )
    return None if skill is None else SkillDistilled(skill=skill)


def trials_of(graph: SearchGraph, *, closely: bool = False) -> list[Trial]:
    """Every diagnosed node of the session's own, as the distiller looks at it: its parent teaches what it learned.

    With ``closely`` (:attr:`.SessionOpened.closer_diagnoses`) nodes without a candidate are none, and noise is noted.
    """
    nodes = [node for node in graph.own() if node.diagnosis is not None and (node.candidate or not closely)]
    return [_trial(node, closely) for node in nodes]


def _trial(node: NodeRecord, closely: bool) -> Trial:
    diagnosis = node.confirmation_diagnosis or node.diagnosis
    assert diagnosis is not None
    return Trial(
        node=node.name,
        parent=node.parent,
        recipe=node.candidate.recipe if node.candidate else {},
        verdict=diagnosis.verdict,
        speedup=diagnosis.fitness if diagnosis.verdict is Verdict.correct else 0.0,
        interval=diagnosis.speedup,
        is_noise=closely and diagnosis.speedup is not None and diagnosis.speedup.is_noise,
        confirmed=node.confirmation_diagnosis is not None,
        bottleneck=str(diagnosis.bottleneck),
        rationale=node.candidate.rationale if node.candidate else "",
        evidence=tuple(node.event_ids[-1:]),
    )
