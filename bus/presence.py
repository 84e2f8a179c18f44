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
        """Everyone who answers within ``timeout`` seconds, sorted by name.

        Raises:
            BusError: the server is away.
        """
        await self._link.connected()
        found: dict[str, WorkerPresence] = {}

        async def hear(message: Msg) -> None:
            with contextlib.suppress(msgspec.DecodeError):  # not a presence: not a worker of ours
                presence = decode(message.data, WorkerPresence)
                found[presence.worker] = presence

        inbox = self._link.nc.new_inbox()
        subscription = await self._link.nc.subscribe(inbox, cb=hear)
        try:
            await self._link.nc.publish(ROLL_CALL, b"", reply=inbox)
            await asyncio.sleep(timeout)  # the answer's end is nowhere announced
        finally:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()
        return [found[name] for name in sorted(found)]

    async def _answer(self, message: Msg) -> None:
        for presence in list(self._mine.values()):
            with contextlib.suppress(nats.errors.Error):
                await self._link.nc.publish(message.reply, encode(presence))
