"""The whole stream in bulk, as wire bytes, for one reader that keeps its own place: the recorder."""

import asyncio
import contextlib

import nats.errors
from nats.aio.msg import Msg
from nats.js import api
from nats.js.errors import NotFoundError

from ..schemas import BusError
from .client import Bus
from .options import ACK_WAIT_SECONDS
from .pull import ConsumerGone, Pull
from .subjects import ANY, STREAM, durable_name, role_filters

_UNACKED = 20_000
_FORGET_SECONDS = 30 * 86400.0
_MAX_BYTES = 16 * 1024 * 1024
_AT_ONCE = 500
"""Messages that are taken before others on the event loop have a turn: 4,000 that had arrived took 70 ms."""


class BulkConsumer:
    """A durable consumer of every event of every pool; one acknowledgement settles all that was handed over.

    The reader knows where it is (``after``: the last sequence it has kept). Where the durable's place at the server is
    another one it is made anew from ``after``: further on if what was kept got lost or was put back from a copy, behind
    or with deliveries unsettled (which would come again only after 30 s) if the last reader was killed.
    """

    def __init__(self, bus: Bus, role: str, after: int) -> None:
        self._link = bus._link
        self._name = durable_name(ANY, role)
        self._after = after
        self._pull: Pull | None = None
        self._last: Msg | None = None
        self._expected = 1

    async def open(self) -> None:
        """Make sure of the durable, and begin to listen.

        Raises:
            BusError: the server refuses or stays away.
        """
        js = self._link.js
        with contextlib.suppress(NotFoundError):
            info = await self._link.retried("look up the recorder", lambda: js.consumer_info(STREAM, self._name))
            if info.ack_floor and info.ack_floor.stream_seq == self._after and not info.num_ack_pending:
                self._expected = info.delivered.consumer_seq + 1 if info.delivered else 1
                await self._listen()
                return
            await self._link.retried("begin the recorder anew", lambda: js.delete_consumer(STREAM, self._name))
        config = self._config()
        await self._link.retried("create the recorder's consumer", lambda: js.add_consumer(STREAM, config))
        await self._listen()

    async def batch(self, limit: int, wait_s: float) -> list[tuple[int, bytes]]:
        """At least one message (however long that takes), then what comes within ``wait_s``, up to ``limit``.

        Pairs of stream sequence and wire bytes, in stream order save for redeliveries. May be cancelled.

        Raises:
            ConsumerGone: the durable or its stream is not there any more, or a message was lost on its way: begin anew.
            BusError: the server stayed away for too long, or refuses.
        """
        assert self._pull is not None
        messages = [await self._next(limit)]
        size = len(messages[0][1])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while len(messages) < limit and size < _MAX_BYTES:
                    messages.append(await self._next(limit))
                    size += len(messages[-1][1])
                    if not len(messages) % _AT_ONCE:
                        await asyncio.sleep(0)
        return messages

    async def ack(self) -> None:
        """Everything handed over so far is kept."""
        if self._last is not None:
            last, self._last = self._last, None
            self._after = max(self._after, last.metadata.sequence.stream)
            with contextlib.suppress(nats.errors.Error):  # means redelivery, which the reader can tell
                await last.ack()

    async def aclose(self) -> None:
        """Stop listening; the durable keeps its place at the server."""
        if self._pull is not None:
            await self._pull.stop()

    def _config(self) -> api.ConsumerConfig:
        return api.ConsumerConfig(
            name=self._name,
            durable_name=self._name,
            filter_subjects=role_filters(ANY, []),
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._after + 1,
            ack_policy=api.AckPolicy.ALL,
            ack_wait=ACK_WAIT_SECONDS,
            max_deliver=-1,
            max_ack_pending=_UNACKED,
            inactive_threshold=_FORGET_SECONDS,
        )

    async def _listen(self) -> None:
        self._pull = Pull(self._link, self._name)
        await self._pull.start()

    async def _next(self, limit: int) -> tuple[int, bytes]:
        assert self._pull is not None
        # More is asked for than a batch holds, so that the next one arrives while this one is being written.
        message = await self._pull.get(4 * limit)
        sequence = message.metadata.sequence
        if sequence.consumer != self._expected:
            # Sent into a connection that broke. Whoever wrote down what follows it, and acknowledged that, would have
            # acknowledged the lost one too: nobody would ever see it again.
            raise ConsumerGone
        self._expected += 1
        self._last = message
        return sequence.stream, message.data


async def stream_identity(bus: Bus) -> str:
    """Name of the stream and when it was created: a stream that was deleted and made anew counts from 1 again.

    Raises:
        BusError: the stream is not there.
    """
    try:
        info = await bus._link.retried("describe its stream", lambda: bus._link.js.stream_info(STREAM))
    except NotFoundError as error:
        raise BusError(f"the event bus at {bus.url} has lost its stream {STREAM}") from error
    return f"{STREAM}@{info.created.isoformat() if info.created else ''}"
