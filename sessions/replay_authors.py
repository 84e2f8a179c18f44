"""Replay of authors that ask models: the recorded answers stand in for models and tools, the same code asks them.

Every request is built again from the log alone: prompt, sub-agents, turns, results of tools. What came of a
conversation is read out of it again. A version with other words asks otherwise; that is told and is no divergence,
since the recorded answers decide.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..agents.synthesizer.backend import BACKENDS, Request, open_backend
from ..agents.synthesizer.model.backend import ModelBackend
from ..agents.synthesizer.model.desk import DeskError
from ..agents.synthesizer.model.prices import Price
from ..agents.synthesizer.model.settings import Settings
from ..agents.synthesizer.model.surroundings import Surroundings
from ..agents.synthesizer.request import request_of
from ..agents.synthesizer.role_models import SUB_AGENTS
from ..graph.session_graph import SearchGraph
from ..knowledge import Document, Library, open_library
from ..knowledge.retrieval import Hit, Query
from ..schemas import (
    CandidateProposed,
    Event,
    InputError,
    KnowledgeRetrieved,
    ModelCalled,
    NodePlanned,
    RetrievedDocument,
    RoleDecided,
    RoleModel,
    Schema,
    ToolCalled,
)
from .recorded_session import RecordedSession
from .replay import ReplayReport

if TYPE_CHECKING:
    from ..agents.synthesizer.model.client import ModelClient
    from ..agents.synthesizer.model.tape import Tape


class ReplayedAuthors(Schema, frozen=True, kw_only=True):
    """What the authors' conversations came to."""

    prompts: int = 0
    """Requests of authors and sub-agents that were built again, to the byte."""
    prompts_changed: tuple[str, ...] = ()
    """Events with a request that this version of the program words otherwise."""
    candidates: int = 0
    """Files that were read out of the recorded answers again, to the byte."""
    candidates_changed: tuple[str, ...] = ()
    """Events with a file that this version reads otherwise."""

    def plus(self, other: "ReplayedAuthors") -> "ReplayedAuthors":
        """Both together."""
        return ReplayedAuthors(
            prompts=self.prompts + other.prompts,
            prompts_changed=self.prompts_changed + other.prompts_changed,
            candidates=self.candidates + other.candidates,
            candidates_changed=self.candidates_changed + other.candidates_changed,
        )


async def replay_authors(past: RecordedSession, to: str = "") -> ReplayedAuthors:
    """Have every conversation of ``past`` again, up to the event with the id ``to``. Needs no network and no key."""
    graph, total = SearchGraph(past.id, past.before), ReplayedAuthors()
    plans, records = dict[str, Request](), dict[str, list[tuple[str, Event]]]()
    for _, envelope in past.events:
        event = envelope.event()
        if event is not None:
            graph.apply(envelope, event)
        if isinstance(event, NodePlanned) and graph.opened is not None and _asks_a_model(event):
            plans[envelope.id] = request_of(graph, graph.opened, envelope.node, event)
        elif event is not None and envelope.cause in plans:
            records.setdefault(envelope.cause, []).append((envelope.id, event))
        if envelope.id == to:
            break
    roles = tuple(role for role in graph.opened.roles if role.role in SUB_AGENTS) if graph.opened else ()
    for cause, own in records.items():
        total = total.plus(await replay_conversation(plans[cause], roles, own))
    return total


async def replay_conversation(
    request: Request, roles: Sequence[RoleModel], records: Sequence[tuple[str, Event]]
) -> ReplayedAuthors:
    """Have one node's conversation again.

    Args:
        request: Of its plan.
        roles: Sub-agents that the session has a model for.
        records: What was recorded in answer to the plan, with the events' ids, oldest first.
    """
    return await _Conversation(request, roles, records).replayed()


def _asks_a_model(plan: NodePlanned) -> bool:
    return plan.synthesizer in BACKENDS and BACKENDS[plan.synthesizer].takes_model


class _Conversation:
    """One node's, out of its records."""

    def __init__(self, request: Request, roles: Sequence[RoleModel], records: Sequence[tuple[str, Event]]) -> None:
        self._request, self._roles, self._records = request, roles, records
        self._calls = [(id, event) for id, event in records if isinstance(event, ModelCalled)]

    async def replayed(self) -> ReplayedAuthors:
        first = next((call for _, call in self._calls if not call.role), None)
        # Without one a limit or a key was in the way: nobody was asked.
        return ReplayedAuthors() if first is None else await self._play(first)

    async def _play(self, first: ModelCalled) -> ReplayedAuthors:
        backend, settings = await _recorded_backend(first)
        # Named here: AutoGen takes seconds to import (the backend did, off the loop), and most sessions ask no model.
        from ..agents.synthesizer.model.authoring import Authoring
        from ..agents.synthesizer.model.tape import Tape, TapedTool, TapedWire, TapeEnded

        tape = Tape(list(self._calls), [event for _, event in self._records if isinstance(event, ToolCalled)])
        around = Surroundings(
            desk=_NoDesk() if '"tools":' in first.request else None,
            library=self._library(),
            subagents=tuple(self._roles),
            open_client=lambda name, record: self._open_client(name, record, tape),
        )
        wire = TapedWire(backend.open_wire(None, first.model, settings), tape)
        # What it cost is recorded; its context bounded the prompt.
        price = Price(input=0, output=0, read=0, write=0, context=first.context) if first.context else None
        authoring = Authoring(wire, first.model, settings, price, self._request, around, _no_pause)
        if authoring.toolbox is not None:
            box = authoring.toolbox
            box.tools = [TapedTool(tool, tape) for tool in box.tools]
            box.reading = [TapedTool(tool, tape, "deep_search") for tool in box.reading]
        try:
            candidate = (await authoring.answer()).candidate
        except TapeEnded:
            candidate = None
        return self._compared(tape, candidate)

    def _compared(self, tape: "Tape", candidate: CandidateProposed | None) -> ReplayedAuthors:
        recorded = [(id, event) for id, event in self._records if isinstance(event, CandidateProposed)]
        same = [event for _, event in recorded if candidate is not None and event == candidate]
        return ReplayedAuthors(
            prompts=tape.same,
            prompts_changed=(*tape.other, *(id for id, _ in tape.calls)),
            candidates=len(same),
            candidates_changed=tuple(id for id, event in recorded if event not in same),
        )

    async def _open_client(self, name: str, record: Callable[[ModelCalled], None], tape: "Tape") -> "ModelClient":
        from ..agents.synthesizer.model.client import ModelClient
        from ..agents.synthesizer.model.tape import TapedWire

        call = next((call for _, call in tape.calls if call.role == name), None)
        if call is None:
            faults = (e.fault for _, e in self._records if isinstance(e, RoleDecided) and e.role == name)
            raise InputError(next(faults, "it was not asked"))
        backend, settings = await _recorded_backend(call)
        wire = TapedWire(backend.open_wire(None, call.model, settings), tape, name)
        return ModelClient(wire, call.model, settings, record, sleep=_no_pause)

    def _library(self) -> Library:
        """The shipped rules, and what was looked up for the prompt."""
        request = self._request
        retrievals = (e for _, e in self._records if isinstance(e, KnowledgeRetrieved) and e.by == "prompt")
        shipped = open_library(request.pool, request.hardware.isa)
        retrieved = next(retrievals, None)
        hits = () if retrieved is None else tuple(map(_hit, retrieved.documents))
        return RecordedLibrary(shipped.pool, shipped.platform, shipped.chips, shipped.documents, hits)


@dataclass(frozen=True)
class RecordedLibrary(Library):
    """A library whose search answers what it answered then."""

    hits: tuple[Hit, ...] = ()

    def search(self, query: Query, *, limit: int = 5) -> tuple[Hit, ...]:
        """The recorded documents."""
        return self.hits


class _NoDesk:
    """Tools answer from the tape; nobody is behind them."""

    async def check(self, source: str, *, compile_only: bool) -> Any:
        raise DeskError("a replay checks nothing")

    async def assembly(self, node: str) -> str:
        raise DeskError("a replay reads no artifact")

    async def ask(self, question: str, values: object) -> str:
        raise DeskError("a replay asks no log")


async def _recorded_backend(call: ModelCalled) -> tuple[ModelBackend, Settings]:
    """The backend of ``call``, and settings that word a request as it was worded; no key is in them."""
    backend = open_backend(call.backend)
    assert isinstance(backend, ModelBackend)
    await backend.import_library()
    request = json.loads(call.request)
    # OpenAI's own service has another name for the longest answer than servers that speak its format.
    url = backend.vendor.url if "max_completion_tokens" in request else "http://replay.invalid"
    return backend, Settings(vendor=backend.vendor, key="", url=url, temperature=request.get("temperature"))


async def _no_pause(seconds: float) -> None:
    """A replay waits for nobody."""


def _hit(document: RetrievedDocument) -> Hit:
    return Hit(
        document=Document(
            path=document.path, title=document.title, platform=(), language=(), level=document.level, text=document.text
        ),
        score=document.score,
        reasons=document.reasons,
    )


def with_authors(report: ReplayReport, authors: ReplayedAuthors) -> ReplayReport:
    """One report of decisions and conversations."""
    return replace(
        report,
        prompts=report.prompts + authors.prompts,
        prompts_changed=report.prompts_changed + authors.prompts_changed,
        candidates=authors.candidates,
        candidates_changed=authors.candidates_changed,
    )
