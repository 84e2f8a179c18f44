"""What a model is told. The same request gives the same text: no clock, no identifiers but the nodes' names.

Three texts, from the one that never changes to the one that always does, because servers cache what requests begin
with. Each is put together within a number of tokens, what matters most first; what did not fit is said. A problem that
does not fit is refused: nobody matches half a reference. A parent is cut in its middle: it can be written anew.
"""

from collections.abc import Sequence

from ....knowledge import Document, Library, Query, open_library
from ....knowledge.retrieval import operator_name
from ....schemas import (
    Bottleneck,
    InputError,
    Intent,
    KnowledgeRetrieved,
    MemoryOperator,
    ProblemFormat,
    Schema,
    Verdict,
)
from ..backend import Attempt, Request
from . import sections
from .tokens import CHARACTERS, estimated_tokens

SESSION_TOKENS = 40_000
"""Most of the text that is the same for a session: the problem file, and the skills that fit beside it."""
LONG_SESSION_TOKENS = 3 * SESSION_TOKENS
"""Likewise, of a problem that needs it and a model whose context has room: a node's 600,000 tokens are then enough for
four of its turns."""
STEP_TOKENS = 50_000
"""Most of the text of a step."""
_FRAME_TOKENS = 100
"""For the titles of a step's parts."""
DOCUMENTS = 5
"""Most documents that a step's prompt carries."""

_ROLE = """\
You are one of several engineers who search for the fastest correct kernel for a PyTorch operator on one machine. You
get the reference, facts about the machine, what was tried and measured, and one task. You answer with one candidate
file. It is compiled, verified on private inputs against a float64 reference, and timed in alternation with eager
PyTorch and torch.compile; its speedup over {against} is its worth. A wrong or dishonest candidate is worth
nothing.

# How to answer
Where you have tools, look up what you need, try drafts with `compile` and `check`, and hand in one file with `submit`.
Tools are bounded, and each result says what is left. Without tools: first one or two sentences, the idea and why it
should be faster, then the complete file in exactly one ```python block, and nothing after it. Always the whole file,
never a part or a patch."""

_AGAINST = {"best": "the better of them", "eager": "eager PyTorch", "compile": "torch.compile"}
"""What a speedup counts against, by the session's option."""

_FORMER_RULES = (("copies after every call.", "copies after every call, unless the reference changes them."),)
"""What the rules say in other words now, and older sessions must go on to be asked in: before, and now."""

_PROCESSOR_EMPHASES = (
    "the fewest bytes moved: fuse everything that can share a pass",
    "page faults and stores: how outputs are allocated and written",
    "the inner loop: vector width, independent chains, cheap transcendental functions",
    "the threads: how the work is split, and how little a call costs",
    "the plainest loop nest that the compiler vectorises by itself",
)
_ACCELERATOR_EMPHASES = (
    "the fewest bytes moved through device memory: fuse everything that can share a pass",
    "the grid: enough blocks for every multiprocessor, tiles that fit registers and shared memory",
    "the inner loop: wide coalesced loads with several in flight, matrix units where the precision allows",
    "launches and gaps: one kernel where there were several, little work on the host",
    "the plainest kernel that reads every input once and writes every output once",
)
"""What a draft is asked to look at first, so that independent drafts are not all the same."""

_TASKS = {
    Intent.draft: "Draft a candidate from the reference. Look first at {emphasis}.",
    Intent.improve: "Improve on node {parent}: act on its diagnosis and make it faster. Change one thing that matters.",
    Intent.repair: "Repair node {parent}: it does not work. Keep its idea and fix the fault that the evidence shows.",
}


class Prompt(Schema, frozen=True, kw_only=True):
    """Three texts, and what was looked up for the last of them."""

    system: str
    """Role, contract and rules: the same for every problem in this language."""
    session: str
    """Problem, machine and skills: the same for all of a session."""
    step: str
    """Task, history and knowledge of this step."""
    retrieved: KnowledgeRetrieved
    """The look-up for this step, as an event."""


class Part(Schema, frozen=True, kw_only=True):
    """A piece of a prompt."""

    title: str
    text: str
    weight: int
    """What it matters; the largest is given room first."""
    is_needed: bool = False
    """Whether nothing can be written without it."""


def compose(
    request: Request,
    library: Library | None = None,
    *,
    condensed: str = "",
    session_tokens: int = SESSION_TOKENS,
    step_tokens: int = STEP_TOKENS,
    context: int = 0,
    answer: int = 0,
) -> Prompt:
    """The prompt of ``request``.

    Args:
        request: What is asked.
        library: What may be looked up; by default what comes with the package.
        condensed: What a context memory made of the trajectory and the siblings; it stands in their place.
        session_tokens: Most of the session's text.
        step_tokens: Most of the step's text.
        context: Most tokens of the model's request with its answer; 0 if that is not known.
        answer: Of them, those to leave for the answer, but no more than half.

    Raises:
        InputError: the problem, or the task with its parent, takes more room than there is.
    """
    library = library or open_library(request.pool, request.hardware.isa)
    query = query_of(request, library)
    hits = library.search(query, limit=DOCUMENTS)
    system = _system(request, library)
    left = context - min(answer, context // 2) - estimated_tokens(system)
    bound = most = max(session_tokens, LONG_SESSION_TOKENS if context and request.grows_with_context else 0)
    if context:
        # A small context has room for a long problem where skills take none.
        most = min(bound, left * 3 // 4)
        session_tokens = min(session_tokens, left * SESSION_TOKENS // (SESSION_TOKENS + STEP_TOKENS))
    parts = _session(request)
    if request.tells_contract:
        is_unknown = request.grows_with_context and not context
        _check_room(
            *("the problem file with its facts and the machine's", parts, most, context * (most < bound)),
            way_out=", write the model's `context` into prices.toml if it is large" * is_unknown,
        )
    session = _within(parts, session_tokens)
    if context:
        step_tokens = min(step_tokens, left - estimated_tokens(session))
    parts = _step(request, [hit.document for hit in hits], condensed, step_tokens)
    if request.tells_contract:
        _check_room("the task with its parent", parts, step_tokens, context * (step_tokens < STEP_TOKENS))
    return Prompt(
        system=system,
        session=session,
        step=_within(parts, step_tokens),
        retrieved=library.retrieved("prompt", query, hits),
    )


def query_of(request: Request, library: Library) -> Query:
    """The signals that documents for ``request`` are looked up by."""
    parent: Attempt | None = request.lineage[0] if request.lineage else None
    is_broken = parent is not None and parent.verdict not in (None, Verdict.correct)
    summary = (parent.diagnosis.summary if parent.diagnosis else "", parent.diagnostics[:500]) if parent else ()
    return library.query(
        language=request.language,
        intent=request.plan.intent,
        facts=request.facts,
        bottleneck=_bottleneck(request),
        failure=str(parent.verdict) if parent is not None and is_broken else "",
        words=(*(_problem_words(request) if request.asks_by_problem else ()), *summary),
    )


def _problem_words(request: Request) -> tuple[str, str]:
    return request.problem.name, " ".join(dict.fromkeys(map(operator_name, request.facts.operators)))


def _system(request: Request, library: Library) -> str:
    rules = "\n\n".join(map(_document, library.constraints(request.language)))
    if not request.tells_contract:
        for former, latter in _FORMER_RULES:
            rules = rules.replace(latter, former)
    return "\n\n".join([_ROLE.replace("{against}", _AGAINST[request.against]), rules])


def _session(request: Request) -> list[Part]:
    skills = [
        Part(title=f"What an earlier search taught: {skill.title}", text=sections.skills([skill]), weight=10 - index)
        for index, skill in enumerate(request.skills)
    ]
    problem = sections.problem(request.problem, request.facts, tells_contract=request.tells_contract)
    machine = sections.machine(
        *(request.pool, request.hardware, request.facts),
        tells_bandwidths=request.tells_bandwidths,
        tells_contract=request.tells_contract,
    )
    return [
        Part(title="Problem", text=problem, weight=100, is_needed=True),
        Part(title="Machine", text=machine, weight=99, is_needed=True),
        *skills,
    ]


def _step(request: Request, documents: Sequence[Document], condensed: str, tokens: int) -> list[Part]:
    memory, lineage = request.plan.memory, request.lineage
    inherits = not condensed and memory in (MemoryOperator.inherit, MemoryOperator.combine)
    compares = not condensed and memory in (MemoryOperator.siblings, MemoryOperator.combine)
    trajectory = sections.history(lineage[1:]) if inherits else ""
    siblings = sections.history(request.siblings) if compares else ""
    task = _task(request)
    parent = sections.parent(lineage[0]) if lineage else ""
    room = tokens - _FRAME_TOKENS - estimated_tokens(task)
    if request.tells_contract and estimated_tokens(parent) > room:
        parent = sections.parent(lineage[0], CHARACTERS * room)
    second = sections.parent(request.second) if request.second else ""
    return [
        *(
            Part(title=f"Knowledge: {document.title}", text=document.text, weight=50 - index)
            for index, document in enumerate(documents)
        ),
        Part(title="What was learned so far", text=condensed, weight=85),
        Part(title="How the parent came about, latest first", text=trajectory, weight=70),
        Part(title="What else was tried from the same parent", text=siblings, weight=75),
        Part(title="Second parent", text=second, weight=80),
        Part(title="Parent", text=parent, weight=90, is_needed=True),
        Part(title="Task", text=task, weight=100, is_needed=True),
    ]


def _task(request: Request) -> str:
    plan = request.plan
    emphases = _PROCESSOR_EMPHASES if request.pool.platform == "cpu" else _ACCELERATOR_EMPHASES
    emphasis = emphases[plan.draw % len(emphases)]
    lines = [_TASKS[plan.intent].format(parent=plan.parent, emphasis=emphasis)]
    lines += [f"- {advice.action}: {advice.reason}" for advice in plan.advice]
    if request.second is not None:
        lines.append(f"Join to it what makes the second parent, node {plan.second}, fast.")
    entry = "`class ModelNew(nn.Module)`" if request.problem.format is ProblemFormat.kernelbench else "`def kernel`"
    lines.append(
        f"Write native code in {request.language}. The file defines {entry}. Do not hand in a file that was tried."
    )
    return "\n".join(lines)


def _bottleneck(request: Request) -> Bottleneck:
    """The parent's, or for a draft the one that the counted work lets expect."""
    parent: Attempt | None = request.lineage[0] if request.lineage else None
    if parent is not None and parent.diagnosis is not None:
        return parent.diagnosis.bottleneck
    if request.plan.intent is Intent.repair:
        return Bottleneck.fault
    moved, computed = sections.floors_ms(request.hardware, request.facts)
    return Bottleneck.compute if computed > moved else Bottleneck.memory_traffic


def _check_room(what: str, parts: Sequence[Part], tokens: int, context: int, way_out: str = "") -> None:
    """Refuse what cannot be asked for.

    Raises:
        InputError: what is needed of ``parts`` takes more.
    """
    needed = sum(estimated_tokens(part.text) for part in parts if part.is_needed)
    if needed > tokens:
        room = f"{max(0, tokens):,}" + f" in the model's context of {context:,}" * bool(context)
        raise InputError(
            f"{what} takes about {needed:,} tokens of a prompt, which has room for {room}: take out of the problem "
            f"file what its reference does not need{', choose a model with a larger context' * bool(context)}"
            f"{way_out}, or use --author generator"
        )


def _within(parts: Sequence[Part], tokens: int) -> str:
    """The parts in their order, those that matter most as far as they fit, and a sentence about the others."""
    parts = [part for part in parts if part.text]
    left = tokens - sum(estimated_tokens(part.text) for part in parts if part.is_needed)
    kept, omitted = [part for part in parts if part.is_needed], list[Part]()
    for part in sorted((part for part in parts if not part.is_needed), key=lambda part: -part.weight):
        size = estimated_tokens(part.text)
        if size <= left:
            kept.append(part)
            left -= size
        else:
            omitted.append(part)
    texts = [_section(part.title, part.text) for part in parts if part in kept]
    if omitted:
        names = "; ".join(part.title for part in parts if part in omitted)
        # Before the last part, which is the task: that is to be read last.
        texts.insert(max(0, len(texts) - 1), f"Left out for lack of room: {names}.")
    return "\n\n".join(texts)


def _section(title: str, text: str) -> str:
    return f"<section title={title!r}>\n{text.strip()}\n</section>"


def _document(document: Document) -> str:
    return f"# {document.title}\n\n{document.text.strip()}"
