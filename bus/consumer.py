"""Work shared out: deliveries of a durable consumer, each to be settled by exactly one answer."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js import api

from ..schemas import BusError, Envelope, decode_envelope
from .cancelled import heeded
from .link import Link
from .pull import ConsumerGone, Pull
from .stream import ensure_consumer

_log = logging.getLogger("kernelswarm.bus")


class Delivery:
    """One event handed to this worker. Settle it with :meth:`ack` or :meth:`nak`: until then its place is taken."""

    __slots__ = ("_messages", "_settled", "data", "deliveries", "envelope", "seq")

    def __init__(
        self, message: Msg, envelope: Envelope, settled: Callable[[], None], *, token: Msg | None = None
    ) -> None:
        meta = message.metadata
        self.envelope = envelope
        self.data: bytes = message.data
        """The event's exact wire bytes."""
        self.seq: int = meta.sequence.stream
        """Its place in the stream, from 1."""
        self.deliveries: int = meta.num_delivered
        """How often it was handed out, this time included. The server never gives up; the agent does."""
        # The dispatch token is settled with the message, and after it.
        self._messages = [message] if token is None else [message, token]
        self._settled: Callable[[], None] | None = settled

    async def ack(self) -> None:
        """It is done: publish the answer first. A second call does nothing."""
        if self._settle():
            for message in self._messages:
                await sent(message.ack())

    async def nak(self, delay_s: float = 0.0) -> None:
        """Hand it to a worker again, after ``delay_s`` seconds. Does nothing once settled."""
        if self._settle():
            for message in self._messages:
                await sent(message.nak(delay_s or None))

    async def in_progress(self) -> None:
        """Still working: the 30 s until redelivery begin anew."""
        if self._settled is not None:
            for message in self._messages:
                await sent(message.in_progress())

    def _settle(self) -> bool:
        settled, self._settled = self._settled, None
        if settled is None:
            return False
        settled()
        return True


class Deliveries(AsyncIterator[Delivery]):
    """What every way of sharing work out has in common: an iteration, a context, and an end."""

    _closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        """The next delivery.

        Raises:
            BusError: the server stayed away for too long, or refuses.
        """
        while not self._closed:
            try:
                delivery = await self._next()
            except BusError:
                if self._closed:
                    break
                raise
            if delivery is not None:
                return delivery
        raise StopAsyncIteration

    async def _next(self) -> Delivery | None:
        """Wait for one; None: nothing came of it, wait again."""
        raise NotImplementedError

    async def start(self) -> Self:
        """Create the durable consumer at the server now rather than with the first delivery."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop. What was handed over and is not settled can still be settled."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Consumer(Deliveries):
    """Deliveries, as ``async for delivery in bus.consume(…)``.

    It outlives server restarts. Waiting for the next one may be cancelled (``asyncio.timeout``) without losing it. At
    most ``max_in_flight`` deliveries are unsettled at a time. Leave it with :meth:`aclose` (or ``async with``): what
    arrived and was not handed over then goes to another worker at once.
    """

    def __init__(
        self, link: Link, config: api.ConsumerConfig, max_in_flight: int, forget: Callable[["Consumer"], None]
    ) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight is {max_in_flight}: it must be at least 1")
        self._link = link
        self._config = config
        self._limit = max_in_flight
        self._forget = forget
        self._busy = 0
        self._freed = asyncio.Event()
        self._lock = asyncio.Lock()
        self._pull: Pull | None = None

    async def batch(self, limit: int, wait_s: float) -> list[Delivery]:
        """One delivery (however long that takes), then what else comes within ``wait_s`` seconds, up to ``limit``.

        Empty only once the consumer is closed.
        """
        deliveries: list[Delivery] = []
        with contextlib.suppress(StopAsyncIteration):
            deliveries.append(await anext(self))
        with contextlib.suppress(TimeoutError, StopAsyncIteration):
            async with asyncio.timeout(wait_s):
                while deliveries and len(deliveries) < limit and self._busy < self._limit:
                    deliveries.append(await anext(self))
        return deliveries

    async def start(self) -> Self:
        """As :meth:`Deliveries.start`."""
        async with self._lock:
            await self._opened()
        return self

    async def aclose(self) -> None:
        """As :meth:`Deliveries.aclose`; what arrived and was not handed over goes to another worker."""
        self._closed = True
        self._freed.set()
        self._forget(self)
        if self._pull is not None:
            for message in await self._pull.stop():
                await sent(message.nak())

    async def _opened(self) -> Pull:
        if self._pull is None:
            await ensure_consumer(self._link, self._config)
            pull = Pull(self._link, self._config.durable_name or "")
            await pull.start()
            self._pull = pull
            if self._closed:
                # Meanwhile, when there was nothing yet to stop.
                await pull.stop()
        return self._pull

    async def _free_place(self) -> None:
        while self._busy >= self._limit and not self._closed:
            self._freed.clear()
            await self._freed.wait()

    async def _next(self) -> Delivery | None:
        async with self._lock:
            await self._free_place()
            if self._closed:
                return None
            pull = await self._opened()
            try:
                message = await pull.get(self._limit - self._busy)
            except ConsumerGone:
                await ensure_consumer(self._link, self._config)
                return None
            envelope = await event_in(message)
            if envelope is None:
                return None
            self._busy += 1
            return Delivery(message, envelope, self._settled)

    def _settled(self) -> None:
        self._busy -= 1
        self._freed.set()


async def event_in(message: Msg) -> Envelope | None:
    """The event in ``message``; None if it holds none, and then it is settled for good."""
    try:
        return decode_envelope(message.data)
    except msgspec.DecodeError as error:
        # Nobody can ever answer it: without this it would come back every 30 s for a month.
        _log.warning("bus: %s holds something that is not an event (%s): skipped", message.subject, error)
        await sent(message.term())
        return None


async def sent(message: Awaitable[object]) -> None:
    """Send an acknowledgement, or not."""
    # An acknowledgement that does not get through means redelivery, which is always allowed.
    with contextlib.suppress(nats.errors.Error):
        await heeded(message)
