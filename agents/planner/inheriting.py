"""Where a fork's planner begins: with what its parent had measured, on the same hardware, by then."""

from collections.abc import Iterable

from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...schemas import SessionOpened, Verdict
from .state import PlannedNode, PlannerState


def begun(graph: SearchGraph) -> PlannerState:
    """The state before the first event: empty, unless ``graph`` is a fork's (its opening event is folded already).

    A fork at a node goes on from that node and its ancestors, a fork as of an event from every correct node. What is
    measured again is not taken over as well: of two measurements of one kernel the newer one counts.
    """
    inheritance = graph.inheritance
    state = PlannerState(starts=inheritance.starts, first_number=inheritance.last_number + 1)
    assert graph.opened is not None or not inheritance.nodes, "what is inherited is known from the opening event on"
    for record in _eligible(graph):
        state.nodes[record.name] = _planned(record, graph.opened)
    for node in state.nodes.values():
        if node.plan.parent in state.nodes:
            state.nodes[node.plan.parent].children.append(node.name)
    return state


def _eligible(graph: SearchGraph) -> Iterable[NodeRecord]:
    opened, inheritance = graph.opened, graph.inheritance
    if opened is None or opened.origin is None:
        return []
    family = graph.lineage(opened.origin.node) if opened.origin.node else inheritance.nodes.values()
    names = {record.name for record in family if record.name in inheritance.nodes} - set(inheritance.starts)
    records = (record for name, record in inheritance.nodes.items() if name in names)
    return [r for r in records if r.diagnosis is not None and r.diagnosis.verdict is Verdict.correct]


def _planned(record: NodeRecord, opened: SessionOpened | None) -> PlannedNode:
    against = opened.against if opened else "best"
    diagnosis = record.confirmation_diagnosis or record.diagnosis
    report = record.confirmation or record.profile_report
    assert diagnosis is not None and record.plan is not None
    fitness, speedup, name = diagnosis.fitness, diagnosis.speedup, diagnosis.against
    if report is not None and report.timing is not None and report.timing.baseline(against) != name:
        # The fork's wins are measured against another baseline than its parent's.
        name = report.timing.baseline(against)
        speedup = report.timing.speedup[name]
        fitness = opened.worth(speedup) if opened else speedup.median
    return PlannedNode(
        record.name,
        record.plan,
        verdict=diagnosis.verdict,
        fitness=fitness,
        speedup=speedup,
        against=name,
        shapes=diagnosis.shapes,
        roofline_fraction=diagnosis.roofline_fraction,
        advice=diagnosis.advice,
        inherited=True,
    )
