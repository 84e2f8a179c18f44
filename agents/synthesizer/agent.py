"""The synthesizer on the bus: gathers what a backend may know and hands its answer on."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...bus import Bus
from ...graph.tasks import withdrawn
from ...schemas import (
    CandidateProposed,
    Event,
    Intent,
    ModelCalled,
    NodePlanned,
    SynthesisFailed,
)
from ..cut_off import publish_cut_off
from ..runtime import Agent, Answer, LatestUsed, Work
from .backend import Answer as BackendAnswer
from .backend import Attempt, Backend, open_backend
from .desk import BusDesk
from .dispatched import dispatched
from .existing import existing
from .model.backend import ModelBackend
from .model.spending import LEDGERS, Limits
from .model.surroundings import Surroundings
from .request import request_of
from .role_models import SUB_AGENTS

if TYPE_CHECKING:
    from .model.client import ModelClient


class Synthesizer(Agent):
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
        backend = await self._backend(plan.synthesizer)
        node, fresh = work.envelope.node, self._fresh[work.envelope.session]
        request = request_of(work.graph, work.opened, node, plan, fresh)
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
        cut_off = partial(publish_cut_off, self._bus, work, self.role) if self._bus is not None else None
        around = Surroundings(desk, self._home, limits, subagents, opener, ledger, publish_cut_off=cut_off)
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

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """The plan stays unanswered; the analyst will say so."""
        plan = work.event
        assert isinstance(plan, NodePlanned)
        return [Answer(SynthesisFailed(backend=plan.synthesizer, reason=reason))]

    async def close(self) -> None:
        """Close the backends."""
        for backend in self._backends.values():
            await backend.close()


def _nothing(plan: NodePlanned) -> SynthesisFailed:
    return SynthesisFailed(backend=plan.synthesizer, reason="the backend answered nothing")
