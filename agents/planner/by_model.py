"""A planner that asks a model which of the policy's candidates comes next, and why."""

from functools import partial

from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...schemas import ChoiceMade, ChoicesOffered, NodeChoice
from ..consulting import TEXT, Consultation, Question, Reading, Unusable, json_object, object_of

REASON_CHARACTERS = 600
MOST_NODES = 20
"""Nodes that are told: the best, and the latest."""

_SYSTEM = """\
You are the planner of a search for the fastest correct kernel. The search's policy offers candidates for the next node:
which kernel to start from, for what (draft, improve, repair), what its author sees (the parent's trajectory, siblings,
both, or nothing) and which advice it gets. Choose the one that will most likely lead to a faster correct kernel. Weigh
what was tried already: advice that failed on siblings is worth less, a kernel that is near its limit gains little.

Answer with one JSON object and nothing else: {"choice": NUMBER, "why": "one or two sentences"}"""


def consultation(graph: SearchGraph, event: ChoicesOffered) -> Consultation[ChoiceMade]:
    """The question that ``event`` asks of the session's model."""
    assert graph.opened is not None, "candidates are offered after the opening"
    asker = next(role for role in graph.opened.roles if role.role == "planner")
    numbers = list(range(1, len(event.choices) + 1))
    schema = object_of({"choice": {"type": "integer", "enum": numbers}, "why": TEXT})
    question = Question(
        system=_SYSTEM,
        text=_text(graph, event),
        answer_schema=schema if graph.opened.structures_answers else None,
    )
    return Consultation(asker, question, partial(read, event), ChoiceMade(number=event.number, choice=0))


def read(offered: ChoicesOffered, completion: str) -> Reading[ChoiceMade]:
    """The choice that an answer makes.

    Raises:
        Unusable: it makes none.
    """
    answer = json_object(completion)
    choice, why = answer.get("choice"), answer.get("why")
    if isinstance(choice, bool) or not isinstance(choice, int) or not 1 <= choice <= len(offered.choices):
        raise Unusable(f"choice is {choice!r}: it must be a number from 1 to {len(offered.choices)}")
    if not isinstance(why, str) or not why.strip():
        raise Unusable("why must be a sentence")
    reason = " ".join(why.split())[:REASON_CHARACTERS]
    return Reading(ChoiceMade(number=offered.number, choice=choice - 1, reason=reason), reason)


def _text(graph: SearchGraph, event: ChoicesOffered) -> str:
    opened = graph.opened
    assert opened is not None
    operators = ", ".join(opened.facts.operators) or "not captured"
    lines = [
        f"# Problem {opened.problem.name}",
        f"ATen operators: {operators}. Pool {opened.pool.name}: {opened.hardware.device}.",
        f"This will be node {event.number}; the budget is {opened.budget} nodes.",
        "# Nodes so far",
        *(f"- {_node(record)}" for record in _telling(graph)),
        "# Candidates for the next node",
        *(f"{number}. {_choice(graph, choice)}" for number, choice in enumerate(event.choices, 1)),
    ]
    return "\n".join(lines)


def _telling(graph: SearchGraph) -> list[NodeRecord]:
    records = [record for record in graph.nodes.values() if record.plan is not None]
    if len(records) <= MOST_NODES:
        return records
    best = sorted(records, key=lambda record: -record.fitness)[: MOST_NODES // 2]
    names = {record.name for record in (*best, *records[-MOST_NODES // 2 :])}
    return [record for record in records if record.name in names]


def _node(record: NodeRecord) -> str:
    plan, diagnosis = record.plan, record.diagnosis
    assert plan is not None
    start = f" of {plan.parent}" if plan.parent else ""
    advised = f", advised {plan.advice[0].action.value}" if plan.advice else ""
    outcome = "under way" if diagnosis is None else f"{diagnosis.verdict.value}; {diagnosis.summary}"
    return f"{record.name}: {plan.intent.value}{start}{advised}: {outcome}"


def _choice(graph: SearchGraph, choice: NodeChoice) -> str:
    parent = graph.nodes.get(choice.parent)
    start = ""
    if parent is not None:
        start = f"from {choice.parent} ({parent.speedup if parent.is_too_noisy else f'{parent.fitness:.4g}x'})"
    second = f", joined with {choice.second}" if choice.second else ""
    advice = "; ".join(f"{advice.action.value}: {advice.reason}" for advice in choice.advice[:3])
    sees = choice.memory.value.replace("_", " ")
    return f"{choice.intent.value} {start}{second}, memory {sees}. {advice}".strip()
