"""Processes in which the generator writes candidates.

A large graph takes seconds, and Python runs one thread at a time: drafts of six networks that were written in a thread
kept the event loop from its work for most of a minute.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import traceback
from collections import deque

import msgspec

from ...codegen import Exhausted, Generator, Proposal
from ...hardware.processes import linux, subprocesses, wire
from ...hardware.processes.channel import Channel
from ...schemas import Config, HardwareFacts, NodePlanned, ProblemFacts, Skill, sha256
from .backend import Attempt, Request

CORES_FOR_ONE = 4
MOST = 4
KEPT = 8
"""Problems that both sides know."""


class Defect(msgspec.Struct, frozen=True, tag=True):
    """The generator raised."""

    reason: str
    trace: str


Draft = Proposal | Exhausted | Defect


class Order(msgspec.Struct, frozen=True):
    """What the generator is asked: of other candidates their configs and hashes, not their sources."""

    facts: msgspec.Raw
    hardware: HardwareFacts
    plan: NodePlanned
    parent: Config | None
    tried: list[Config]
    skills: tuple[Skill, ...]
    sources: set[str]
    second: Config | None
    language: str


class Drafters:
    """The processes of one supervisor; each is started when all others are at work, and ends with it."""

    def __init__(self, most: int = 0) -> None:
        """``most`` at once; 0: by the number of cores."""
        self._turns = asyncio.Semaphore(most or max(1, min(MOST, (os.cpu_count() or 1) // CORES_FOR_ONE)))
        self._idle: list[_Drafter] = []
        self._facts: deque[tuple[ProblemFacts, msgspec.Raw]] = deque(maxlen=KEPT)
        """Those that were sent last, and their bytes: a session's are the same each time."""
        self._is_closed = False

    async def draft(self, request: Request) -> Draft:
        """What the generator answers; cancelled, it writes no further.

        Raises:
            EOFError, OSError: the process ended, and another one did, too.
        """
        try:
            order = wire.frame(self._order(request))
        except (OverflowError, RecursionError, UnicodeError) as error:
            return Defect(f"{type(error).__name__}: {error}", traceback.format_exc())
        async with self._turns:
            with contextlib.suppress(EOFError, OSError):
                return await self._drafted(self._idle.pop() if self._idle else await _Drafter.started(), order)
            return await self._drafted(await _Drafter.started(), order)

    def _order(self, request: Request) -> Order:
        parent = parent_of(request)
        facts = next((raw for sent, raw in self._facts if sent is request.facts), None)
        if facts is None:
            facts = msgspec.Raw(msgspec.msgpack.encode(request.facts))
            self._facts.append((request.facts, facts))
        return Order(
            facts=facts,
            hardware=request.hardware,
            plan=request.plan,
            parent=parent.recipe if parent else None,
            tried=[attempt.recipe for attempt in request.tried if attempt.source],
            skills=request.skills,
            sources={sha256(attempt.source) for attempt in request.tried},
            second=(request.second.recipe or None) if request.second and parent else None,
            language=request.language,
        )

    async def _drafted(self, drafter: "_Drafter", order: bytes) -> Draft:
        try:
            draft = await drafter.draft(order)
        except BaseException:
            await drafter.close()
            raise
        self._idle.append(drafter)
        if self._is_closed:
            await self.close()
        return draft

    async def close(self) -> None:
        """End those that are idle, and each of the others once it has answered."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()


class _Drafter:
    def __init__(self, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self._process, self._channel = process, channel

    @classmethod
    async def started(cls) -> "_Drafter":
        process, ours = await subprocesses.start_on_socket(__name__)
        return cls(process, Channel(ours))

    async def draft(self, order: bytes) -> Draft:
        await self._channel.send_framed(order)
        draft: Draft
        draft, _ = await self._channel.receive(Draft)
        return draft

    async def close(self) -> None:
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await subprocesses.reaped(self._process)


def parent_of(request: Request) -> Attempt | None:
    """The node to start from: its own backend may be another one, then its config means nothing here."""
    if not request.plan.parent or not request.lineage:
        return None
    return request.lineage[0] if request.lineage[0].recipe else None


def proposed(order: Order, facts: ProblemFacts) -> Draft:
    """What the generator answers, in this process."""
    try:
        return Generator().propose(
            facts,
            order.hardware,
            order.plan,
            order.parent,
            order.tried,
            order.skills,
            order.sources,
            order.second,
            order.language,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes data
        return Defect(f"{type(error).__name__}: {error}", traceback.format_exc())


def main(descriptor: int) -> None:
    """Serve the supervisor on the socket ``descriptor`` until its other end is gone."""
    linux.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Candidates may be timed meanwhile.
    os.nice(linux.LESS_URGENT)
    # What the generator knows of a graph it knows by the object.
    latest: deque[tuple[bytes, ProblemFacts]] = deque(maxlen=KEPT)
    with socket.socket(fileno=descriptor) as supervisor, contextlib.suppress(EOFError, ConnectionError):
        while True:
            order: Order
            order, _ = wire.receive(supervisor, Order)
            described = bytes(order.facts)
            facts = next((facts for known, facts in latest if known == described), None)
            if facts is None:
                facts = msgspec.msgpack.decode(described, type=ProblemFacts)
                latest.append((described, facts))
            wire.send(supervisor, proposed(order, facts))


if __name__ == "__main__":
    main(int(sys.argv[1]))
