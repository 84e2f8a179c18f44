"""A distiller that asks a model what a session taught, beside what the rules count."""

from functools import partial

from msgspec.structs import replace

from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...knowledge import with_lessons
from ...schemas import RoleModel, SkillDistilled
from ..consulting import TEXT, Consultation, Question, Reading, Unusable, json_object, list_of, object_of

MOST_LESSONS = 8
LESSON_CHARACTERS = 500
MOST_NODES = 40
SOURCE_CHARACTERS = 20_000

_SYSTEM = """\
You are the distiller of a search for the fastest correct kernel. The search is over. You get what it tried, what that
came to, its fastest kernel, and the skill that rules wrote from the numbers. Say what an engineer should know who
writes a kernel for a like problem on the same hardware: what made the difference and why, what failed and why, what is
left to try. Only what these results show; no general advice.

Answer with one JSON object and nothing else: {"lessons": ["one or two sentences", ...]}, one to eight of them, the most
useful first."""


def consultation(graph: SearchGraph, ruled: SkillDistilled) -> Consultation[SkillDistilled] | None:
    """The question that the session has a model for; None if its rules write the skill alone.

    Nobody waits for a model at the end of a session that was interrupted.
    """
    opened = graph.opened
    asker = next((role for role in opened.roles if role.role == "distiller"), None) if opened is not None else None
    if opened is None or asker is None or (graph.closed is not None and graph.closed.reason == "interrupted"):
        return None
    schema = object_of({"lessons": list_of(TEXT)}) if opened.structures_answers else None
    question = Question(system=_SYSTEM, text=_text(graph, ruled), answer_schema=schema)
    return Consultation(asker, question, partial(read, asker, ruled), ruled)


def read(asker: RoleModel, ruled: SkillDistilled, completion: str) -> Reading[SkillDistilled]:
    """The skill with the lessons of an answer.

    Raises:
        Unusable: there are none.
    """
    given = json_object(completion).get("lessons")
    if not isinstance(given, list) or not given or not all(isinstance(lesson, str) for lesson in given):
        raise Unusable("lessons must be a list of sentences")
    lessons = [" ".join(lesson.split())[:LESSON_CHARACTERS] for lesson in given[:MOST_LESSONS]]
    if not all(lessons):
        raise Unusable("a lesson is empty")
    skill = with_lessons(ruled.skill, lessons, asker.model)
    return Reading(replace(ruled, skill=skill), f"{len(lessons)} lessons")


def _text(graph: SearchGraph, ruled: SkillDistilled) -> str:
    opened, best = graph.opened, graph.best()
    assert opened is not None, "a session that closed was opened"
    own = graph.own()
    shown = own if len(own) <= MOST_NODES else [*own[: MOST_NODES // 2], *own[-MOST_NODES // 2 :]]
    source = best.candidate.source if best is not None and best.candidate is not None else ""
    return "\n".join(
        [
            f"# Problem {opened.problem.name} on {opened.hardware.device}",
            opened.problem.source[:SOURCE_CHARACTERS].strip(),
            "# What was tried",
            *(f"- {_node(record)}" for record in shown),
            f"# The fastest kernel ({best.name if best is not None else 'none'})",
            source[:SOURCE_CHARACTERS].strip(),
            "# The skill by rules",
            ruled.skill.text.partition("\n---\n")[2].strip(),
        ]
    )


def _node(record: NodeRecord) -> str:
    diagnosis = record.confirmation_diagnosis or record.diagnosis
    outcome = "not judged" if diagnosis is None else f"{diagnosis.verdict.value}; {diagnosis.summary}"
    idea = " ".join(record.candidate.rationale.split())[:300] if record.candidate is not None else ""
    config = record.candidate.recipe if record.candidate is not None else {}
    tunables = ", ".join(f"{name}={value}" for name, value in sorted(config.items()))
    start = f" from {record.parent}" if record.parent else ""
    return f"{record.name}{start}: {outcome}. {idea} {tunables}".rstrip()
