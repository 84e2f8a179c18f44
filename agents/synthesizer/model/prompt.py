"""What a model is told. The same request gives the same text: no clock, no identifiers but the nodes' names."""

from ....knowledge import Document, Query, constraints, retrieve
from ....schemas import Bottleneck, Intent, MemoryOperator, ProblemFormat, Schema
from ..backend import Attempt, Request
from . import sections

_ROLE = """\
You are one of several engineers who search for the fastest correct kernel for a PyTorch operator on one machine. You
get the reference, facts about the machine, what was tried and measured, and one task. You answer with one candidate
file. It is compiled, verified on private inputs against a float64 reference, and timed in alternation with eager
PyTorch and torch.compile; its speedup over the better of them is its worth. A wrong or dishonest candidate is worth
nothing.

# How to answer
First one or two sentences: the idea, and why it should be faster. Then the complete file in exactly one ```python
block. Nothing after the block. Always the whole file, never a part or a patch."""

_EMPHASES = (
    "the fewest bytes moved: fuse everything that can share a pass",
    "page faults and stores: how outputs are allocated and written",
    "the inner loop: vector width, independent chains, cheap transcendental functions",
    "the threads: how the work is split, and how little a call costs",
    "the plainest loop nest that the compiler vectorises by itself",
)
"""What a draft is asked to look at first, so that independent drafts are not all the same."""

_TASKS = {
    Intent.draft: "Draft a candidate from the reference. Look first at {emphasis}.",
    Intent.improve: "Improve on node {parent}: act on its diagnosis and make it faster. Change one thing that matters.",
    Intent.repair: "Repair node {parent}: it does not work. Keep its idea and fix the fault that the evidence shows.",
}


class Prompt(Schema, frozen=True, kw_only=True):
    """Three texts, from the one that never changes to the one that always does, so that the first two can be cached."""

    system: str
    """Role, contract and rules: the same for every problem in this language."""
    session: str
    """Problem, machine and skills: the same for all of a session."""
    step: str
    """Task, history and knowledge of this step."""


def compose(request: Request) -> Prompt:
    """The prompt of ``request``."""
    return Prompt(system=_system(request), session=_session(request), step=_step(request))


def _system(request: Request) -> str:
    rules = constraints(request.pool.platform, request.language)
    return "\n\n".join([_ROLE, *(_document(rule) for rule in rules)])


def _session(request: Request) -> str:
    parts = [
        ("Problem", sections.problem(request.problem, request.facts)),
        ("Machine", sections.machine(request.pool, request.hardware, request.facts)),
        ("What earlier searches on like problems taught", sections.skills(request.skills)),
    ]
    return _join(parts)


def _step(request: Request) -> str:
    memory, lineage = request.plan.memory, request.lineage
    inherits = memory in (MemoryOperator.inherit, MemoryOperator.combine)
    compares = memory in (MemoryOperator.siblings, MemoryOperator.combine)
    parts = [
        ("Knowledge that may help", "\n\n".join(_document(document) for document in _knowledge(request))),
        ("How the parent came about, latest first", sections.history(lineage[1:]) if inherits else ""),
        ("What else was tried from the same parent", sections.history(request.siblings) if compares else ""),
        ("Parent", sections.parent(lineage[0]) if lineage else ""),
        ("Second parent", sections.parent(request.second) if request.second else ""),
        ("Task", _task(request)),
    ]
    return _join(parts)


def _task(request: Request) -> str:
    plan = request.plan
    emphasis = _EMPHASES[plan.draw % len(_EMPHASES)]
    lines = [_TASKS[plan.intent].format(parent=plan.parent, emphasis=emphasis)]
    lines += [f"- {advice.action}: {advice.reason}" for advice in plan.advice]
    if request.second is not None:
        lines.append(f"Join to it what makes the second parent, node {plan.second}, fast.")
    entry = "`class ModelNew(nn.Module)`" if request.problem.format is ProblemFormat.kernelbench else "`def kernel`"
    lines.append(
        f"Write native code in {request.language}. The file defines {entry}. Do not hand in a file that was tried."
    )
    return "\n".join(lines)


def _knowledge(request: Request) -> tuple[Document, ...]:
    return retrieve(
        Query(
            platform=request.pool.platform,
            language=request.language,
            bottleneck=_bottleneck(request),
            phase=request.plan.intent,
            operators=request.facts.operators,
        ),
        limit=4,
    )


def _bottleneck(request: Request) -> Bottleneck:
    """The parent's, or for a draft the one that the counted work lets expect."""
    parent: Attempt | None = request.lineage[0] if request.lineage else None
    if parent is not None and parent.diagnosis is not None:
        return parent.diagnosis.bottleneck
    if request.plan.intent is Intent.repair:
        return Bottleneck.fault
    moved, computed = sections.floors_ms(request.hardware, request.facts)
    return Bottleneck.compute if computed > moved else Bottleneck.memory_traffic


def _document(document: Document) -> str:
    return f"# {document.title}\n\n{document.text.strip()}"


def _join(parts: list[tuple[str, str]]) -> str:
    return "\n\n".join(f"<section title={title!r}>\n{text.strip()}\n</section>" for title, text in parts if text)
