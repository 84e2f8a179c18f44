"""The tools of a conversation: typed, few, bounded. What judges a candidate is behind none of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from autogen_core.tools import BaseTool, FunctionTool, ToolSchema

from ....hardware.languages.loaders import with_loader
from ....knowledge import Library
from ....schemas import CompileReport, InputError, KnowledgeRetrieved, Schema, VerifyReport, limits_text
from ..backend import Attempt, Request
from . import sections
from .desk import Desk, DeskError
from .extract import ExtractedCandidate, Rejected, checked_source, without_loader

RESULT_CHARACTERS = 16_000
"""Most of one result."""

Question = Literal["this_session", "tried_on_operator", "gains_by_advice", "gains_by_diagnosis", "why_candidates_fail"]
Part = Literal["source", "diagnosis", "compiler", "evidence", "counters", "assembly"]


class NodeLimits(Schema, frozen=True, kw_only=True):
    """How much one node may ask."""

    turns: int = 14
    """Answers of the model, the last included."""
    checks: int = 5
    """Drafts that are compiled or checked."""
    tokens: int = 600_000
    """Of requests and answers together."""
    seconds: float = 1800.0
    """From the first request on; what is under way then is finished."""
    cost: float = 5.0
    """US dollars, sub-agents included, where prices are known."""


NODE_LIMITS = NodeLimits()


class _Tool(FunctionTool):
    @cached_property
    def schema(self) -> ToolSchema:
        """Made once: AutoGen asks several times a turn, and each time takes a millisecond."""
        return super().schema


class Toolbox:
    """The tools of one conversation about ``request``, and what they were used for."""

    def __init__(
        self,
        request: Request,
        library: Library,
        desk: Desk,
        *,
        accept: Callable[[ExtractedCandidate], None],
        record: Callable[[KnowledgeRetrieved], None],
        limits: NodeLimits = NODE_LIMITS,
        clock: Callable[[], float] = time.monotonic,
        deep_search: Callable[[str, Sequence[BaseTool[Any, Any]]], Awaitable[str]] | None = None,
    ) -> None:
        """``deep_search`` is a sub-agent that gets the tools to read with; None: there is none.

        ``accept`` may raise Rejected for a candidate that is of no use; ``record`` gets every look-up.
        """
        self._deep_search = deep_search
        self._request, self._library, self._desk = request, library, desk
        self._accept, self._record, self.limits, self._clock = accept, record, limits, clock
        self._attempts = {attempt.node: attempt for attempt in (*request.tried, *request.lineage, *request.siblings)}
        self._began = clock()
        self._checks = 0
        self.turns = 0
        """Answers of the model so far."""
        self.submitted: ExtractedCandidate | None = None
        """What was handed in."""
        self.reading: Sequence[BaseTool[Any, Any]] = [
            _tool(self.search_knowledge, "Search the documents about this chip, language and kind of operator."),
            _tool(self.read_document, "Read one document whole."),
            _tool(
                self.show_node,
                "Show a node of this search: source, diagnosis, messages, evidence, counters, or its machine code "
                "(assembly: innermost loops first).",
            ),
            _tool(self.history, "Ask what was tried before, in this session or on like operators in earlier ones."),
        ]
        """Those that only read."""
        searching = [_tool(self.deep_search, "Have a question looked up in documents, nodes and log: with sources.")]
        self.tools: Sequence[BaseTool[Any, Any]] = [
            *self.reading,
            *(searching if deep_search is not None else []),
            _tool(self.compile, "Compile a draft: messages, registers, spills. Bounded."),
            _tool(self.check, "Compile a draft and try it on small inputs; nothing is timed. Bounded."),
            _tool(self.submit, "Hand in the candidate. It ends the conversation."),
        ]
        """As AutoGen takes them."""

    @property
    def remaining(self) -> str:
        """What is left, as every result ends with."""
        turns, checks = self.limits.turns - self.turns, self.limits.checks - self._checks
        return f"[{max(0, turns)} turns and {max(0, checks)} checks left; hand in with submit]"

    def is_out_of_time(self) -> bool:
        """Whether the node's time is over."""
        return self._clock() - self._began > self.limits.seconds

    async def search_knowledge(self, question: Annotated[str, "What you want to know, in a few words."]) -> str:
        """Titles and paths of the documents that answer a question best."""
        query = self._library.query(language=self._request.language, words=(question,))
        hits = await asyncio.to_thread(self._library.search, query, limit=6)
        self._record(self._library.retrieved("search_knowledge", query, hits, with_text=False))
        if not hits:
            return self._answer("nothing matches")
        lines = [f"- {hit.document.path}: {hit.document.title} ({'; '.join(hit.reasons)})" for hit in hits]
        return self._answer("\n".join([*lines, "read_document gives the text."]))

    async def read_document(self, path: Annotated[str, "Path, as search_knowledge gives it."]) -> str:
        """A document's text."""
        try:
            document = self._library.read(path)
        except InputError as error:
            return self._answer(str(error))
        return self._answer(f"# {document.title}\n\n{document.text}")

    async def show_node(
        self, node: Annotated[str, "Its name, as n007."], part: Annotated[Part, "What of it."] = "source"
    ) -> str:
        """What is known of a node."""
        attempt = self._attempts.get(node)
        if attempt is None:
            return self._answer(f"there is no node {node!r} with a candidate; there are {', '.join(self._attempts)}")
        try:
            text = await self._desk.assembly(node) if part == "assembly" else _part(attempt, part)
        except DeskError as error:
            text = str(error)
        return self._answer(f"{sections.outcome(attempt)}\n{text}")

    async def history(
        self,
        question: Annotated[Question, "this_session, or a question to the log of all sessions."],
        operator: Annotated[str, "For tried_on_operator: a word of an ATen operator, as softmax."] = "",
    ) -> str:
        """What was tried, and what came of it."""
        if question == "this_session":
            return self._answer(sections.history(self._request.tried) or "nothing was tried yet")
        try:
            # What helped on another platform says nothing here.
            words = {"operator": operator, "platform": self._request.pool.platform}
            return self._answer(await self._desk.ask(question, words))
        except DeskError as error:
            return self._answer(str(error))

    async def deep_search(self, question: Annotated[str, "One question, with what you know already."]) -> str:
        """Another agent looks a question up in its own conversation, and answers with sources."""
        assert self._deep_search is not None, "it is offered only where there is one"
        return self._answer(await self._deep_search(question, self.reading))

    async def compile(self, source: Annotated[str, "The whole candidate file."]) -> str:
        """What the compiler says to a draft."""
        return await self._checked(source, compile_only=True)

    async def check(self, source: Annotated[str, "The whole candidate file."]) -> str:
        """Whether a draft compiles and is right on small inputs."""
        return await self._checked(source, compile_only=False)

    async def submit(
        self,
        source: Annotated[str, "The whole candidate file."],
        idea: Annotated[str, "One or two sentences: the idea, and why it should be faster."] = "",
    ) -> str:
        """Hand in."""
        if self.submitted is not None:
            return "a file was handed in already"
        try:
            candidate = ExtractedCandidate(source=with_loader(checked_source(source)), rationale=idea[:600])
            self._accept(candidate)
        except Rejected as rejected:
            return self._answer(f"not accepted: {rejected}")
        self.submitted = candidate
        return "handed in"

    async def _checked(self, source: str, *, compile_only: bool) -> str:
        if self._checks >= self.limits.checks:
            return self._answer("no checks are left: hand in")
        try:
            draft = with_loader(checked_source(source))
        except Rejected as rejected:
            return self._answer(str(rejected))
        self._checks += 1
        try:
            checked = await self._desk.check(draft, compile_only=compile_only)
        except DeskError as error:
            return self._answer(str(error))
        return self._answer("\n".join([*_compiled(checked.compiled), *_verified(checked.verified)]))

    def _answer(self, text: str) -> str:
        return f"{sections.shortened(text, RESULT_CHARACTERS)}\n{self.remaining}"


def _tool(function: Callable[..., Awaitable[str]], description: str) -> BaseTool[Any, Any]:
    return _Tool(function, description=description)


def _part(attempt: Attempt, part: str) -> str:
    match part:
        case "source":
            return sections.fenced(without_loader(attempt.source), "python")
        case "diagnosis":
            return sections.diagnosis(attempt.diagnosis) if attempt.diagnosis else "not diagnosed yet"
        case "compiler":
            return attempt.diagnostics or "the compiler said nothing"
        case "counters":
            return "\n".join(f"{name} = {value:.6g}" for name, value in attempt.counters.items()) or "none were read"
        case _:
            return attempt.evidence or "there is none"


def _compiled(report: CompileReport) -> list[str]:
    lines = ["It compiles." if report.ok else "It does not compile."]
    lines += [f"{d.line}:{d.column}: {d.severity}: {d.message}" for d in report.diagnostics[:40]]
    lines += sections.resources(report.kernels)
    if not report.ok and not report.diagnostics and report.log:
        lines.append(sections.shortened(report.log, 4_000))
    return lines


def _verified(report: VerifyReport | None) -> list[str]:
    if report is None:
        return []
    lines = [f"On small inputs: {report.verdict.value.replace('_', ' ')}."]
    if report.evidence is not None:
        lines.append(sections.evidence(report.evidence))
    if report.limits:
        lines.append(limits_text(report.limits))
    return lines
