"""The synthesizer on the bus: gathers what a backend may know and hands its answer on."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...bus import Bus
from ...graph.session_graph import NodeRecord, SearchGraph
from ...graph.tasks import withdrawn
from ...schemas import (
    AuthorShare,
    CandidateProposed,
    Event,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodePlanned,
    SynthesisFailed,
    Verdict,
)
from ..runtime import Answer, LatestUsed, Work
from .authors import authors_of
from .backend import Answer as BackendAnswer
from .backend import Attempt, Backend, Request, open_backend
from .desk import BusDesk
from .dispatched import dispatched
from .existing import existing
from .model import sections
from .model.backend import ModelBackend
from .model.spending import LEDGERS, Limits
from .model.surroundings import Surroundings
from .role_models import SUB_AGENTS

if TYPE_CHECKING:
    from .model.client import ModelClient


class Synthesizer:
    """Turns plans into candidates through the backend that the plan names."""

    role = "synthesizer"
    consumes: tuple[type[Event], ...] = (NodePlanned,)

    def __init__(self, bus: Bus | None = None, home: Path | None = None) -> None:
        """Without ``bus`` models have no tools, without ``home`` no manuals and prices of the user's."""
        self._bus, self._home = bus, home
        self._backends: dict[str, Backend] = {}
        self._fresh: LatestUsed[dict[str, Attempt]] = LatestUsed(dict)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Answer one plan."""
        plan = work.event
        assert isinstance(plan, NodePlanned)
        if work.graph.tasks.is_withdrawn(work.envelope.node):
            return [Answer(withdrawn())]
        if plan.intent is Intent.remeasure:
            return [Answer(existing(work.graph, work.opened, plan))]
        if plan.intent is Intent.dispatch:
            return [Answer(await asyncio.to_thread(dispatched, work.graph, work.opened, plan))]
        answer = await self._answer(work, plan)
        if answer.candidate is not None:
            self._remember(work.envelope.session, work.envelope.node, answer.candidate)
        events: list[Event] = [*answer.records]
        events.append(answer.candidate or answer.failed or answer.task or _nothing(plan))
        return [Answer(event) for event in events]

    async def _answer(self, work: Work, plan: NodePlanned) -> BackendAnswer:
        backend, request = await self._backend(plan.synthesizer), self._request(work, plan)
        if not isinstance(backend, ModelBackend):
            return await backend.synthesize(request)
        opened, ledger = work.opened, LEDGERS[work.envelope.session]
        ledger.observe(work.graph)
        desk = BusDesk(self._bus, self._home, work) if self._bus is not None and self._home is not None else None
        limits = Limits(cost=opened.max_cost, tokens=opened.max_tokens)
        subagents = tuple(role for role in opened.roles if role.role in SUB_AGENTS)

        async def open_client(name: str, record: Callable[[ModelCalled], None]) -> "ModelClient":
            role = next(role for role in subagents if role.role == name)
            asked = await self._backend(role.backend)
            assert isinstance(asked, ModelBackend) and self._home is not None, "checked before the session opened"
            return await asked.open_client(
                role.model,
                role.base_url,
                self._home,
                record,
                admit=lambda price, prompt, answer: ledger.reserved(limits, price, prompt, answer),
                jitter=(plan.draw % 1000) / 1000,
            )

        opener = open_client if self._home is not None else None
        around = Surroundings(desk, self._home, limits, subagents, opener, ledger)
        return await backend.converse(request, around)

    async def _backend(self, name: str) -> Backend:
        if name not in self._backends:
            # Its libraries take up to seconds to import.
            self._backends[name] = await asyncio.to_thread(open_backend, name)
        return self._backends[name]

    def _remember(self, session: str, node: str, candidate: CandidateProposed) -> None:
        # Nodes are planned several at a time: what was proposed a moment ago is not in this plan's history yet.
        self._fresh[session][node] = Attempt(
            node=node, source=candidate.source, recipe=candidate.recipe, rationale=candidate.rationale
        )

    def _request(self, work: Work, plan: NodePlanned) -> Request:
        graph, opened = work.graph, work.opened
        # What was tried on other hardware was not tried here.
        here = {name: record for name, record in graph.nodes.items() if record.candidate and not record.elsewhere}
        attempts = {name: attempt_of(record) for name, record in here.items()}
        tried = {**self._fresh[work.envelope.session], **attempts}
        memory = plan.memory
        author = next((a for a in authors_of(opened) if a.name == plan.synthesizer), AuthorShare(name=plan.synthesizer))
        parent = graph.nodes.get(plan.parent)
        lineage = _latest_measurements([attempt_of(record) for record in graph.lineage(plan.parent)])
        second = graph.nodes.get(plan.second)
        sees_siblings = memory in (MemoryOperator.siblings, MemoryOperator.combine)
        return Request(
            problem=opened.problem,
            facts=opened.facts,
            pool=opened.pool,
            hardware=opened.hardware,
            plan=plan,
            node=work.envelope.node,
            language=opened.language,
            # The parent's own source is what a step starts from, whatever it may remember beyond it.
            lineage=tuple(lineage if memory in (MemoryOperator.inherit, MemoryOperator.combine) else lineage[:1]),
            siblings=tuple(_siblings(graph, parent)) if sees_siblings else (),
            second=attempt_of(second) if second and second.candidate else None,
            tried=tuple(tried[name] for name in sorted(tried)),
            skills=opened.skills,
            model=author.model,
            base_url=author.base_url,
            given=opened.candidates,
        )

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """The plan stays unanswered; the analyst will say so."""
        plan = work.event
        assert isinstance(plan, NodePlanned)
        return [Answer(SynthesisFailed(backend=plan.synthesizer, reason=reason))]

    async def close(self) -> None:
        """Close the backends."""
        for backend in self._backends.values():
            await backend.close()


def attempt_of(record: NodeRecord) -> Attempt:
    """What is known of a node, as a backend sees it."""
    candidate = record.candidate
    report = record.compile_report
    return Attempt(
        node=record.name,
        source=candidate.source if candidate else "",
        recipe=candidate.recipe if candidate else {},
        rationale=candidate.rationale if candidate else "",
        verdict=_verdict(record),
        fitness=record.fitness,
        diagnosis=record.diagnosis,
        diagnostics="\n".join(f"{d.line}:{d.column}: {d.severity}: {d.message}" for d in report.diagnostics)
        if report
        else "",
        counters=_counters(record),
        evidence=_evidence(record),
    )


def _verdict(record: NodeRecord) -> Verdict | None:
    return record.diagnosis.verdict if record.diagnosis else None


def _counters(record: NodeRecord) -> dict[str, float]:
    report = record.profile_report
    return dict(report.counters.values) if report is not None and report.counters is not None else {}


def _evidence(record: NodeRecord) -> str:
    for report in (record.verify_report, record.profile_report):
        if report is not None and report.evidence is not None:
            return sections.evidence(report.evidence)
    return ""


def _latest_measurements(lineage: list[Attempt]) -> list[Attempt]:
    """Without the older of two measurements of one kernel: a fork measures what it goes on from again."""
    pairs = zip(lineage, [None, *lineage], strict=False)
    return [
        attempt for attempt, later in pairs if later is None or not attempt.source or attempt.source != later.source
    ]


def _siblings(graph: SearchGraph, parent: NodeRecord | None) -> list[Attempt]:
    return [attempt_of(child) for child in graph.children(parent.name) if child.candidate] if parent else []


def _nothing(plan: NodePlanned) -> SynthesisFailed:
    return SynthesisFailed(backend=plan.synthesizer, reason="the backend answered nothing")
