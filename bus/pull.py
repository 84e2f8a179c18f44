"""Asking one consumer for messages, whatever happens to the server meanwhile.

nats-py's ``fetch`` asks twice for a batch, stalls for its whole timeout across a server restart and cannot be
cancelled without losing what is on its way. Here one request stays open at the server, so a message travels as soon as
it is stored.
"""

import asyncio
import contextlib
import json
from collections import deque

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ..schemas import BusError
from .cancelled import heeded
from .link import RETRY_SECONDS, Link
from .subjects import STREAM

EXPIRES_SECONDS = 30.0
HEARTBEAT_SECONDS = 5.0

_FAREWELL_SECONDS = 2.0
"""How long the server's last words are waited for when we stop listening."""

_NANO = 1_000_000_000


class ConsumerGone(Exception):
    """The server knows no such consumer (any more)."""


class Pull:
    """One inbox for one consumer. One task at a time may wait in :meth:`get`; it may be cancelled without loss."""

    def __init__(self, link: Link, consumer: str, *, ephemeral: bool = False) -> None:
        self._link = link
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
        self._inbox = link.nc.new_inbox()
        self._ephemeral = ephemeral
        self._subscription: Subscription | None = None
        self._ready: deque[Msg] = deque()
        self._changed = asyncio.Event()
        self._request = 0
        self._open = 0
        self._gone = False
        self._refused = ""
        self._rest = False
        self._stopped = False

    async def start(self) -> None:
        """Listen on the inbox."""
        self._subscription = await self._link.nc.subscribe(f"{self._inbox}.*", cb=self._receive)
        self._link.watch(self._interrupted)

    async def stop(self) -> list[Msg]:
        """Stop listening; returns what has arrived and was not handed over."""
        self._stopped = True
        self._changed.set()
        self._link.unwatch(self._interrupted)
        if self._subscription is not None:
            # Of an unacknowledged consumer nobody misses the last words.
            await leave(self._link, self._subscription, listen=not self._ephemeral)
        left, self._ready = list(self._ready), deque()
        return left

    async def get(self, batch: int) -> Msg:
        """The next message; if nothing is under way, up to ``batch`` are asked for.

        Raises:
            ConsumerGone: create the consumer, then try again.
            BusError: the bus is closed, lost, or refuses.
        """
        while self._stopped or not self._ready:
            self._link.check()
            if self._stopped:
                raise BusError("this subscription is closed")
            if self._refused:
                raise BusError(f"the event bus refuses to deliver: {self._refused}")
            if self._gone:
                self._gone = False
                raise ConsumerGone
            if self._open <= 0:
                await self._ask(batch)
            await self._wait()
        return self._ready.popleft()

    async def _ask(self, batch: int) -> None:
        if self._rest:
            self._rest = False
            await asyncio.sleep(RETRY_SECONDS)
        await self._link.connected()
        self._request += 1
        self._open = batch
        body = {
            "batch": batch,
            "expires": int(EXPIRES_SECONDS * _NANO),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * _NANO),
        }
        with contextlib.suppress(nats.errors.ConnectionClosedError):  # the next check() says why
            reply = f"{self._inbox}.{self._request}"
            await heeded(self._link.nc.publish(self._subject, json.dumps(body).encode(), reply=reply))

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(2.5 * HEARTBEAT_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            self._open = 0  # not even a heartbeat: the request is lost
        self._changed.clear()

    def _interrupted(self) -> None:
        self._open = 0
        # What an unacknowledged consumer sent into a broken connection is lost: its reader starts a new one.
        self._gone = self._gone or self._ephemeral
        self._changed.set()

    async def _receive(self, message: Msg) -> None:
        status = message.headers.get("Status") if message.headers and not message.data else None
        if status is None:
            self._ready.append(message)
            self._open -= 1
        elif status != "100" and message.subject == f"{self._inbox}.{self._request}":
            self._finish(status, (message.headers or {}).get("Description", ""))
        self._changed.set()

    def _finish(self, status: str, description: str) -> None:
        self._open = 0
        if status == "503" or description == "Consumer Deleted":
            self._gone = self._rest = True
        elif status == "400":
            self._refused = description
        elif status not in ("404", "408"):
            self._rest = True


async def leave(link: Link, subscription: Subscription, *, listen: bool = True) -> None:
    """End a subscription; ``listen``: hear what the server sends before it knows.

    That is out on delivery: dropped here, it would come again only after the acknowledgement's wait.
    """
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        if listen and link.nc.is_connected:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await heeded(subscription.drain())  # type: ignore[no-untyped-call]
    with contextlib.suppress(nats.errors.Error):  # it is ended already, or the connection is
        await subscription.unsubscribe()
