"""Heartbeats: who is there, asked and said over core NATS."""

import asyncio
import contextlib

import msgspec
import nats.errors
from nats.aio.msg import Msg

from ..schemas import decode, encode
from ..schemas.presence import WorkerPresence
from .cancelled import heeded
from .link import Link
from .subjects import ROLL_CALL, live_subject


class Presence:
    """The workers of this process, as others see them, and the others', as this process sees them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._mine: dict[str, WorkerPresence] = {}
        self._answering = False
        self._starting = asyncio.Lock()

    async def heartbeat(self, presence: WorkerPresence) -> None:
        """Say that a worker lives; from now on it also answers roll calls, with what it said last."""
        self._mine[presence.worker] = presence
        async with self._starting:
            if not self._answering:
                await self._link.connected()
                await self._link.nc.subscribe(ROLL_CALL, cb=self._answer)
                with contextlib.suppress(nats.errors.Error):  # the client subscribes again when it is connected again
                    await self._link.nc.flush()
                self._answering = True
        with contextlib.suppress(nats.errors.Error):  # the next heartbeat says it again
            await heeded(self._link.nc.publish(live_subject(presence.pool, presence.role), encode(presence)))

    def leave(self, worker: str) -> None:
        """A worker has ended: it answers no longer."""
        self._mine.pop(worker, None)

    async def workers(self, timeout: float) -> list[WorkerPresence]:
        """Everyone who answers until ``timeout`` seconds have passed without an answer, sorted by name.

        Raises:
            BusError: the server is away.
        """
        await self._link.connected()
        presences: dict[str, WorkerPresence] = {}
        heard = asyncio.Event()

        async def hear(message: Msg) -> None:
            with contextlib.suppress(msgspec.DecodeError):  # not a presence: not a worker of ours
                presence = decode(message.data, WorkerPresence)
                presences[presence.worker] = presence
            heard.set()

        inbox = self._link.nc.new_inbox()
        subscription = await self._link.nc.subscribe(inbox, cb=hear)
        try:
            await self._link.nc.publish(ROLL_CALL, b"", reply=inbox)
            with contextlib.suppress(nats.errors.Error):  # nobody is heard before the server has called
                await self._link.nc.flush()
            await _silence(heard, timeout)
        finally:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()
        return [presences[name] for name in sorted(presences)]

    async def _answer(self, message: Msg) -> None:
        for presence in list(self._mine.values()):
            with contextlib.suppress(nats.errors.Error):
                await self._link.nc.publish(message.reply, encode(presence))


async def _silence(heard: asyncio.Event, seconds: float) -> None:
    """Wait until nothing was heard for so long: where a roll call ends is nowhere announced."""
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(seconds):
                await heard.wait()
            heard.clear()
