"""Many events sent one behind the other, their acknowledgements heard on one inbox.

A request and a task for each cost four times as much of the processor as sending it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js.api import Header

from ..schemas import BusError
from .cancelled import heeded
from .link import ANSWER_SECONDS, Link
from .subjects import STREAM

IN_FLIGHT = 256
"""Events of one call that wait for their acknowledgement at a time."""

BLOCK = 1000
"""Events of one call, that may take one answer's time together."""


class Outgoing(NamedTuple):
    """An event on its way."""

    subject: str
    data: bytes
    id: str
    tag: str
    session: str


class _Ack(msgspec.Struct):
    seq: int = 0
    error: Any = None


@dataclass
class _Block:
    """Events of which not all are acknowledged."""

    sequences: list[int | None]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    open: int = 0

    async def at_most(self, count: int) -> None:
        """Wait until no more than ``count`` of them are on their way."""
        while self.open > count:
            self.changed.clear()
            await self.changed.wait()


class Acks:
    """Sends without asking anything twice: what got no acknowledgement is for the caller to look after."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._inbox = ""
        self._opening = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[str, tuple[_Block, int]] = {}

    async def send(self, events: Sequence[Outgoing]) -> list[int | None]:
        """Send ``events``, at most :data:`BLOCK`, in their order; the stream sequence of each, None where none came.

        None may mean anything: refused, too late, or the connection broke.

        Raises:
            BusError: the server stays away.
        """
        await self._listen()
        block = _Block([None] * len(events))
        numbers: list[str] = []
        try:
            with contextlib.suppress(TimeoutError, nats.errors.Error, BusError):
                async with self._link.request_timeout({event.subject for event in events}, ANSWER_SECONDS):
                    for place, event in enumerate(events):
                        await block.at_most(IN_FLIGHT - 1)
                        numbers.append(str(next(self._numbers)))
                        self._open[numbers[-1]] = block, place
                        block.open += 1
                        headers = {Header.MSG_ID.value: event.id, Header.EXPECTED_STREAM.value: STREAM}
                        reply = f"{self._inbox}.{numbers[-1]}"
                        await heeded(self._link.nc.publish(event.subject, event.data, reply=reply, headers=headers))
                    await block.at_most(0)
        finally:
            for number in numbers:
                self._open.pop(number, None)
        return block.sequences

    async def _listen(self) -> None:
        async with self._opening:
            await self._link.connected()
            if not self._inbox:
                inbox = self._link.nc.new_inbox()
                await heeded(self._link.nc.subscribe(f"{inbox}.*", cb=self._receive))
                self._inbox = inbox

    async def _receive(self, message: Msg) -> None:
        block, place = self._open.pop(message.subject.rpartition(".")[2], (None, 0))
        if block is None:
            return
        with contextlib.suppress(msgspec.MsgspecError):  # nobody keeps that stream: empty, with a status
            ack = msgspec.json.decode(message.data, type=_Ack)
            if ack.error is None and ack.seq:
                block.sequences[place] = ack.seq
        block.open -= 1
        block.changed.set()
