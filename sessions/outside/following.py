"""An open session as somebody outside follows it: folded from its first event on, then as it goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ...agents.ancestors import reader
from ...bus import Bus, Tail
from ...graph.inheritance import inherited
from ...graph.session_graph import SearchGraph
from ...schemas import Envelope, Event, InputError, SessionOpened


class NotOnTheBus(InputError):
    """The bus holds no such session: it has ended, is not served, or there is none."""


class Followed:
    """A session as far as it was followed."""

    def __init__(self, bus: Bus, home: Path, session: str) -> None:
        self.graph = SearchGraph(session)
        self.pool = ""
        self.answers: dict[str, list[tuple[str, Event]]] = {}
        """What was said so far, by the id of the event that it answers: nodes and events."""
        self.seen = 0
        """Stream sequence of the last event."""
        self._bus = bus
        self._home = home
        self._ids: set[str] = set()
        self._tail: Tail | None = None

    async def catch_up(self) -> None:
        """Fold what the bus holds.

        Raises:
            NotOnTheBus: it holds no such session, or lost its beginning.
            BusError: the server stays away.
        """
        for seq, envelope in await self._bus.history(self.graph.session, after=self.seen):
            await self._fold(seq, envelope)
        if self.graph.opened is None:
            raise NotOnTheBus(
                f"there is no session {self.graph.session!r} on the bus: `kernelswarm tasks list` shows the open ones"
            )

    async def until(self, reached: Callable[["Followed"], bool], wait_s: float) -> bool:
        """Follow it until ``reached``; False if that took longer than ``wait_s`` seconds."""
        if self._tail is None:
            self._tail = self._bus.tail(session=self.graph.session, after=self.seen)
        try:
            async with asyncio.timeout(wait_s):
                while not reached(self):
                    await self._fold(*await anext(self._tail))
        except (TimeoutError, StopAsyncIteration):
            return reached(self)
        return True

    async def close(self) -> None:
        """Follow it no longer."""
        if self._tail is not None:
            await self._tail.aclose()

    async def _fold(self, seq: int, envelope: Envelope) -> None:
        """Take the next event in. A copy of one changes nothing."""
        self.seen = seq
        event = envelope.event()
        if event is None or envelope.id in self._ids:
            return
        self._ids.add(envelope.id)
        if isinstance(event, SessionOpened):
            self.pool = envelope.pool
            self.graph = SearchGraph(self.graph.session, await inherited(event, reader(self._bus, self._home)))
        self.graph.apply(envelope, event)
        self.answers.setdefault(envelope.cause, []).append((envelope.node, event))


@asynccontextmanager
async def following(bus: Bus, home: Path, session: str) -> AsyncIterator[Followed]:
    """The session up to now, to be followed on while the body runs. Errors: :meth:`Followed.catch_up`."""
    followed = Followed(bus, home, session)
    try:
        await followed.catch_up()
        yield followed
    finally:
        await followed.close()
