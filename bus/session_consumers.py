"""One durable consumer for each session of a role: where work lies until that session is served."""

import asyncio
import contextlib
import json

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import api

from ..schemas import BusError
from .cancelled import heeded
from .link import ANSWER_SECONDS, RETRY_SECONDS, Link
from .pull import leave
from .stream import ensure_consumer
from .subjects import STREAM

_NOW = json.dumps({"batch": 1, "no_wait": True}).encode()
_EMPTY = ("404", "408")


class SessionConsumers:
    """Takes what is there, session by session, without waiting. One task at a time; a take may be cancelled."""

    def __init__(self, link: Link, durables: set[str]) -> None:
        """``durables``: consumers that are known to exist; workers of one process share it."""
        self._link = link
        self._inbox = link.nc.new_inbox()
        self._subscription: Subscription | None = None
        self._durables = durables
        self._request = 0
        self._answer: asyncio.Future[Msg] | None = None

    async def take(self, config: api.ConsumerConfig) -> Msg | None:
        """The next message of the consumer ``config``, which is created if it does not exist; None if nothing waits.

        Raises:
            BusError: the server stays away, or refuses.
        """
        name = config.durable_name or ""
        while True:
            if name not in self._durables:
                await ensure_consumer(self._link, config)
                self._durables.add(name)
            message = await self._request_next(name)
            if message is None:
                continue
            status = _status(message)
            if status is None:
                return message
            if status in _EMPTY:
                return None
            if status == "400":
                raise BusError(f"the event bus refuses to deliver: {(message.headers or {}).get('Description', '')}")
            # Deleted, or its server is just moving house.
            self._durables.discard(name)
            await asyncio.sleep(RETRY_SECONDS)

    async def aclose(self) -> None:
        """Stop listening."""
        self._link.unwatch(self._interrupted)
        if self._subscription is not None:
            await leave(self._link, self._subscription)  # what still comes goes to another worker

    async def _request_next(self, name: str) -> Msg | None:
        """What the server says; None if the connection broke or it said nothing: ask again."""
        await self._link.connected()
        if self._subscription is None:
            self._subscription = await self._link.nc.subscribe(f"{self._inbox}.*", cb=self._receive)
            self._link.watch(self._interrupted)
        self._request += 1
        self._answer = asyncio.get_running_loop().create_future()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}"
        try:
            await heeded(self._link.nc.publish(subject, _NOW, reply=f"{self._inbox}.{self._request}"))
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer
        except (TimeoutError, nats.errors.Error):
            return None
        finally:
            self._answer = None

    def _interrupted(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TimeoutError())

    async def _receive(self, message: Msg) -> None:
        status, waiting = _status(message), self._answer
        if status is None:
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            else:  # nobody waits for it any more: it goes to another worker at once
                with contextlib.suppress(nats.errors.Error):
                    await message.nak()
        elif message.subject == f"{self._inbox}.{self._request}" and waiting is not None and not waiting.done():
            waiting.set_result(message)


def _status(message: Msg) -> str | None:
    return message.headers.get("Status") if message.headers and not message.data else None
