"""Work of a pool shared out fairly among its sessions (docs/decisions/0011).

Two kinds of durable consumers for each role. The *dispatch tokens* are the shared queue: one for every event that
the role answers, headers only; a worker that holds one may take one piece of work. The *per-session consumers* hold
the work. A token names a session; where other tokens wait, its holder takes from the session that is next by round
robin. So an idle worker waits in one place, exactly one wakes up for one event, and no session stands behind another's
backlog.
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
from .open_sessions import OpenSessionIndex
from .pull import ConsumerGone, Pull
from .round_robin import RoundRobin
from .session_consumers import SessionConsumers
from .stream import ensure_consumer
from .subjects import session_of

LOOK_AROUND_SECONDS = 20.0
"""After so long without a token a worker asks one open session's consumer: a token may have been lost."""

TRIES = 8
"""Consumers that the holder of a token asks by round robin; after that, all others."""

EMPTY_SECONDS = (0.5, 8.0)
"""For how long a consumer that was found empty is passed over: at first, and at most."""

TOKEN_DELIVERIES = 60
"""A token for which nothing was found so often is thrown away."""

LOOK_AGAIN_SECONDS = (0.05, 1.0)
"""After how long such a token is looked at again: at first, doubled each time, and at most."""

_chance = random.Random()
"""Not the process's own generator: a user's program may have seeded that."""


@dataclass
class SessionConsumersState:
    """What the workers of one role in one process know of the per-session consumers, together."""

    round_robin: RoundRobin
    durables: set[str] = field(default_factory=set)
    """Durable names of consumers that exist."""
    empty: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Sessions whose consumer was found empty: until when it is passed over, and the seconds that this is."""
    named: set[str] = field(default_factory=set)
    """Sessions that tokens named and whose consumer was not found empty since: the index does not hold closed ones."""


class FairConsumer(Deliveries):
    """Deliveries of one role, one at a time, sessions by round robin; otherwise as :class:`.consumer.Consumer`.

    The next one comes once the last one is settled.

    ``session_config`` makes the configuration of a session's consumer.
    """

    def __init__(
        self,
        link: Link,
        token_config: api.ConsumerConfig,
        session_config: Callable[[str], api.ConsumerConfig],
        open_sessions: OpenSessionIndex,
        state: SessionConsumersState,
        forget: Callable[["FairConsumer"], None],
    ) -> None:
        self._link = link
        self._token_config = token_config
        self._session_config = session_config
        self._open_sessions = open_sessions
        self._state = state
        self._round_robin = state.round_robin
        self._forget = forget
        self._consumers = SessionConsumers(link, state.durables)
        self._pull: Pull | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> Self:
        """As :meth:`Deliveries.start`, for the consumer that all sessions share."""
        if self._pull is None:
            await ensure_consumer(self._link, self._token_config)
            self._pull = Pull(self._link, self._token_config.durable_name or "")
            await self._pull.start()
        return self

    async def aclose(self) -> None:
        """As :meth:`Deliveries.aclose`."""
        self._closed = True
        self._idle.set()
        self._forget(self)
        await self._stop_waiting()
        await self._consumers.aclose()

    async def _next(self) -> Delivery | None:
        await self._idle.wait()
        token = None if self._closed else await self._token()
        if not self._closed:
            return await self._served(token)
        if token is not None:
            await sent(token.nak())
        return None

    async def _token(self) -> Msg | None:
        """The next dispatch token; None after a long time without one."""
        await self.start()
        assert self._pull is not None
        # Not all at the same time: a thousand idle workers look around, too.
        patience = LOOK_AROUND_SECONDS * _chance.uniform(0.5, 1.5)
        while True:
            try:
                async with asyncio.timeout(patience):
                    return await self._pull.get(1)
            except ConsumerGone:
                await ensure_consumer(self._link, self._token_config)
            except TimeoutError:
                await self._stop_waiting()
                return None

    async def _stop_waiting(self) -> None:
        """What was asked for and is still to come would lie here while we work on something else."""
        pull, self._pull = self._pull, None
        if pull is not None:
            for token in await pull.stop():
                await sent(token.nak())

    async def _served(self, token: Msg | None) -> Delivery | None:
        try:
            async for session in self._choices(token):
                message = await self._consumers.take(self._session_config(session))
                if message is not None:
                    self._state.empty.pop(session, None)
                    return await self._delivery(token, session, message)
                self._passed_over(session)
        except BaseException:
            if token is not None:
                await sent(token.nak())
            raise
        if token is not None:
            await self._unused(token)
        return None

    async def _choices(self, token: Msg | None) -> AsyncGenerator[str, None]:
        """Sessions to look at, the next one by round robin first."""
        if token is None:
            # By chance, not by round robin: that would always name a session that never has anything to do.
            if open_ones := await self._open_sessions.sessions():
                yield _chance.choice(open_ones)
            return
        own = session_of(token.subject)[0]
        self._state.empty.pop(own, None)
        self._state.named.add(own)
        alone = token.metadata.num_pending == 0
        if alone:  # nobody else waits: no need to know who else there is
            yield own
        now, sessions = time.monotonic(), {*await self._open_sessions.sessions(), *self._state.named}
        ordered = [name for name in self._round_robin.order(sessions) if not (alone and name == own)]
        likely = [name for name in ordered if self._state.empty.get(name, (0.0, 0.0))[0] <= now][:TRIES]
        for session in likely:
            yield session
        # For this token there is work somewhere: rather look everywhere than leave it for a second.
        for session in sorted(set(ordered) - set(likely), key=lambda name: name != own):
            yield session

    def _passed_over(self, session: str) -> None:
        shortest, longest = EMPTY_SECONDS
        pause = min(longest, 2 * self._state.empty.get(session, (0.0, shortest / 2))[1])
        self._state.empty[session] = (time.monotonic() + pause, pause)
        self._state.named.discard(session)

    async def _delivery(self, token: Msg | None, session: str, message: Msg) -> Delivery | None:
        envelope = await event_in(message)
        if envelope is None:
            if token is not None:
                await sent(token.ack())
            return None
        began = time.monotonic()
        self._idle.clear()
        self._round_robin.begin(session)

        def settled() -> None:
            self._round_robin.end(session, time.monotonic() - began)
            self._idle.set()

        return Delivery(message, envelope, settled, token=token)

    async def _unused(self, token: Msg) -> None:
        """Whatever it stood for is in hands that may drop it: somebody looks again."""
        tries = token.metadata.num_delivered
        first, most = LOOK_AGAIN_SECONDS
        if tries >= TOKEN_DELIVERIES:
            await sent(token.ack())
        else:
            await sent(token.nak(min(most, first * 2.0 ** min(tries - 1, 10))))
