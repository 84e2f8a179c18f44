"""Work of a pool shared out fairly among its sessions (docs/decisions/0011).

Two kinds of durable consumers for each role. The *tickets* are the shared queue: one for every event that the role
answers, headers only; who holds one may take one piece of work. The *lanes*, one for each session, hold the work. A
ticket names a session, but with others waiting its holder takes from the lane whose turn it is. So an idle worker
waits in one place, exactly one wakes up for one event, and no session stands behind another's backlog.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Self

from nats.aio.msg import Msg
from nats.js import api

from .consumer import Deliveries, Delivery, event_in, sent
from .link import Link
from .open_sessions import Board
from .pull import ConsumerGone, Pull
from .round_robin import Turns
from .session_consumers import Lanes
from .stream import ensure_consumer
from .subjects import session_of

LOOK_AROUND_SECONDS = 20.0
"""After so long without a ticket a worker looks into one open session's lane: a ticket may have been lost."""

TRIES = 8
"""Lanes that the holder of a ticket looks into by whose turn it is; after that, wherever there is something."""

EMPTY_SECONDS = (0.5, 8.0)
"""For how long a lane that was found empty is passed over: at first, and at most."""

TICKET_DELIVERIES = 60
"""A ticket for which nothing was found so often is thrown away."""

LOOK_AGAIN_SECONDS = (0.05, 1.0)
"""After how long such a ticket is looked at again: at first, doubled each time, and at most."""


@dataclass
class LaneState:
    """What the workers of one role in one process know of the lanes, together."""

    turns: Turns
    durables: set[str] = field(default_factory=set)
    """Durable names of lanes that exist."""
    empty: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Sessions whose lane was found empty: until when it is passed over, and the seconds that this is."""
    named: set[str] = field(default_factory=set)
    """Sessions that tickets named and whose lane was not found empty since: closed ones are on no board."""


class FairConsumer(Deliveries):
    """Deliveries of one role, one at a time, the sessions in turn; otherwise as :class:`.consumer.Consumer`.

    The next one comes once the last one is settled.

    ``lane`` makes the configuration of a session's consumer.
    """

    def __init__(
        self,
        link: Link,
        tickets: api.ConsumerConfig,
        lane: Callable[[str], api.ConsumerConfig],
        board: Board,
        lane_state: LaneState,
        forget: Callable[["FairConsumer"], None],
    ) -> None:
        self._link = link
        self._tickets = tickets
        self._lane = lane
        self._board = board
        self._lane_state = lane_state
        self._turns = lane_state.turns
        self._forget = forget
        self._lanes = Lanes(link, lane_state.durables)
        self._pull: Pull | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> Self:
        """As :meth:`Deliveries.start`, for the consumer that all sessions share."""
        if self._pull is None:
            await ensure_consumer(self._link, self._tickets)
            self._pull = Pull(self._link, self._tickets.durable_name or "")
            await self._pull.start()
        return self

    async def aclose(self) -> None:
        """As :meth:`Deliveries.aclose`."""
        self._closed = True
        self._idle.set()
        self._forget(self)
        await self._stop_waiting()
        await self._lanes.aclose()

    async def _next(self) -> Delivery | None:
        await self._idle.wait()
        ticket = None if self._closed else await self._ticket()
        if not self._closed:
            return await self._served(ticket)
        if ticket is not None:
            await sent(ticket.nak())
        return None

    async def _ticket(self) -> Msg | None:
        """The next ticket; None after a long time without one."""
        await self.start()
        assert self._pull is not None
        # Not all at the same time: a thousand idle workers look around, too.
        patience = LOOK_AROUND_SECONDS * random.uniform(0.5, 1.5)
        while True:
            try:
                async with asyncio.timeout(patience):
                    return await self._pull.get(1)
            except ConsumerGone:
                await ensure_consumer(self._link, self._tickets)
            except TimeoutError:
                await self._stop_waiting()
                return None

    async def _stop_waiting(self) -> None:
        """What was asked for and is still to come would lie here while we work on something else."""
        pull, self._pull = self._pull, None
        if pull is not None:
            for ticket in await pull.stop():
                await sent(ticket.nak())

    async def _served(self, ticket: Msg | None) -> Delivery | None:
        try:
            async for session in self._choices(ticket):
                message = await self._lanes.take(self._lane(session))
                if message is not None:
                    self._lane_state.empty.pop(session, None)
                    return await self._delivery(ticket, session, message)
                self._passed_over(session)
        except BaseException:
            if ticket is not None:
                await sent(ticket.nak())
            raise
        if ticket is not None:
            await self._unused(ticket)
        return None

    async def _choices(self, ticket: Msg | None) -> AsyncGenerator[str, None]:
        """Sessions to look at, the one whose turn it is first."""
        if ticket is None:
            # By chance, not by whose turn it is: it would always be that of one that never has anything to do.
            if open_ones := await self._board.sessions():
                yield random.choice(open_ones)
            return
        own = session_of(ticket.subject)[0]
        self._lane_state.empty.pop(own, None)
        self._lane_state.named.add(own)
        alone = ticket.metadata.num_pending == 0
        if alone:  # nobody else waits: no need to know who else there is
            yield own
        now, sessions = time.monotonic(), {*await self._board.sessions(), *self._lane_state.named}
        ordered = [name for name in self._turns.order(sessions) if not (alone and name == own)]
        likely = [name for name in ordered if self._lane_state.empty.get(name, (0.0, 0.0))[0] <= now][:TRIES]
        for session in likely:
            yield session
        # For this ticket there is work somewhere: rather look everywhere than leave it for a second.
        for session in sorted(set(ordered) - set(likely), key=lambda name: name != own):
            yield session

    def _passed_over(self, session: str) -> None:
        shortest, longest = EMPTY_SECONDS
        pause = min(longest, 2 * self._lane_state.empty.get(session, (0.0, shortest / 2))[1])
        self._lane_state.empty[session] = (time.monotonic() + pause, pause)
        self._lane_state.named.discard(session)

    async def _delivery(self, ticket: Msg | None, session: str, message: Msg) -> Delivery | None:
        envelope = await event_in(message)
        if envelope is None:
            if ticket is not None:
                await sent(ticket.ack())
            return None
        began = time.monotonic()
        self._idle.clear()
        self._turns.begin(session)

        def settled() -> None:
            self._turns.end(session, time.monotonic() - began)
            self._idle.set()

        return Delivery(message, envelope, settled, ticket=ticket)

    async def _unused(self, ticket: Msg) -> None:
        """Whatever it stood for is in hands that may drop it: somebody looks again."""
        tries = ticket.metadata.num_delivered
        first, most = LOOK_AGAIN_SECONDS
        if tries >= TICKET_DELIVERIES:
            await sent(ticket.ack())
        else:
            await sent(ticket.nak(min(most, first * 2.0 ** min(tries - 1, 10))))
