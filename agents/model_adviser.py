"""Asks models on behalf of the ring's roles, over the same backends, prices and limits as the authors."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..bus import Bus
from ..schemas import InputError, ModelCalled, RoleDecided, RoleModel, StopRequested
from .consulting import ROUNDS, Asked, Question
from .cut_off import publish_cut_off
from .runtime import LatestUsed, Work
from .synthesizer.backend import open_backend
from .synthesizer.model.backend import ModelBackend
from .synthesizer.model.settings import Settings
from .synthesizer.model.spending import LEDGERS, Limits

if TYPE_CHECKING:
    from .synthesizer.model.client import ModelClient

LONGEST_ANSWER = 8_000
"""Tokens, thinking included: a role answers in a few lines."""
SILENCE_S = 90.0
"""Longest silence of the server: the ring waits for a role."""
ATTEMPTS = 2
LONGEST_WAIT_S = 20.0
"""A server that asks for a longer pause is not asked again."""


class ModelAdviser:
    """One process's way from its roles to models."""

    def __init__(self, bus: Bus, home: Path) -> None:
        self._bus, self._home = bus, home
        self._backends: dict[str, ModelBackend] = {}
        self._without_schema: LatestUsed[set[tuple[str, str, str]]] = LatestUsed(set)
        """By session, the backend, address and model of those that took no schema: nobody is refused twice."""

    async def ask(self, work: Work, asker: RoleModel, question: Question, complaint: Callable[[str], str]) -> Asked:
        """Ask until ``complaint`` has none; what an earlier try of this step asked already is not asked again."""
        earlier, is_over = await self._earlier(work, asker.role)
        if is_over is not None:
            return Asked(earlier, is_over.fault)
        answered = [call for call in earlier if not call.error]
        if len(answered) >= ROUNDS or any(not complaint(call.completion) for call in answered):
            return Asked(earlier)
        calls = list(earlier)
        try:
            fault = await self._ask(work, asker, question, complaint, calls, ROUNDS - len(answered))
        except BaseException:
            # Cancelled, or a defect: no answer will say what was asked.
            await publish_cut_off(self._bus, work, asker.role, calls[len(earlier) :])
            raise
        return Asked(tuple(calls), fault)

    async def _earlier(self, work: Work, role: str) -> tuple[tuple[ModelCalled, ...], RoleDecided | None]:
        """What a worker that was killed in this step had published of it."""
        stored = await self._bus.history(work.envelope.session, after=work.seq)
        own = {envelope.id: envelope for _, envelope in stored if envelope.cause == work.envelope.id}
        events = [envelope.event() for envelope in own.values()]
        calls = tuple(event for event in events if isinstance(event, ModelCalled) and event.role == role)
        decided = (event for event in events if isinstance(event, RoleDecided) and event.role == role)
        return calls, next(decided, None)

    async def _ask(
        self,
        work: Work,
        asker: RoleModel,
        question: Question,
        complaint: Callable[[str], str],
        calls: list[ModelCalled],
        rounds: int,
    ) -> str:
        opened, ledger = work.opened, LEDGERS[work.envelope.session]
        ledger.observe(work.graph)
        limits = Limits(cost=opened.max_cost, tokens=opened.max_tokens)

        def record(call: ModelCalled) -> None:
            calls.append(replace(call, role=asker.role))
            ledger.record(calls[-1])

        try:
            backend = await self._backend(asker.backend)
            client: ModelClient = await backend.open_client(
                asker.model,
                asker.base_url,
                self._home,
                record,
                # Rules decide sooner than an author's answer ends.
                admit=lambda price, prompt, answer: ledger.reserved(limits, price, prompt, answer, waits=False),
                adjust=_brief,
                jitter=int(work.envelope.id[:4], 16) / 0x10000,
            )
        except InputError as error:
            return str(error)
        # Named at run time: AutoGen takes seconds to import, and opening the client has done so in a thread.
        from .synthesizer.model.asking import ask

        refusing, asked = self._without_schema[work.envelope.session], (asker.backend, asker.base_url, asker.model)
        client.refuses_schemas = asked in refusing
        asking = asyncio.ensure_future(
            ask(client, question.system, question.text, complaint, rounds, question.answer_schema)
        )
        stopped = asyncio.ensure_future(self._stopped(work))
        try:
            await asyncio.wait({asking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else "the session was asked to end"
        finally:
            asking.cancel()
            stopped.cancel()
            # A request that is given up is recorded, too.
            await asyncio.wait((asking, stopped))
            if client.refuses_schemas:
                refusing.add(asked)

    async def _stopped(self, work: Work) -> None:
        """Return once the session is asked to end after the event in hand: nobody is to wait for a model then."""
        tail = self._bus.tail(session=work.envelope.session, after=work.seq)
        async with contextlib.aclosing(tail):
            async for _, envelope in tail:
                if isinstance(envelope.event(), StopRequested):
                    return

    async def _backend(self, name: str) -> ModelBackend:
        if name not in self._backends:
            backend = await asyncio.to_thread(open_backend, name)
            if not isinstance(backend, ModelBackend):
                raise InputError(f"{name!r} asks no model")
            self._backends[name] = backend
        return self._backends[name]

    async def close(self) -> None:
        """Close the backends."""
        for backend in self._backends.values():
            await backend.close()


def _brief(settings: Settings) -> Settings:
    """A role's answer is short and soon, or its rules decide."""
    return replace(
        settings,
        max_tokens=min(settings.max_tokens, LONGEST_ANSWER),
        timeout_s=min(settings.timeout_s, SILENCE_S),
        longest_answer_s=min(settings.longest_answer_s, 2 * SILENCE_S),
        attempts=min(settings.attempts, ATTEMPTS),
        longest_wait_s=min(settings.longest_wait_s, LONGEST_WAIT_S),
    )
