"""The stream in order: what was said so far, and then what is said next."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.js import api

from ..schemas import BusError, Envelope, decode_envelope
from .link import Link
from .pull import ConsumerGone, Pull
from .subjects import STREAM

_log = logging.getLogger("kernelswarm.bus")

_BATCH = 256
_IDLE_SECONDS = 20.0
"""After so long without its reader the server forgets a reader's consumer."""


class Reader:
    """Reads from a sequence on, in order and without a gap: an ephemeral consumer, made anew wherever it broke off."""

    def __init__(self, link: Link, subjects: str | list[str], after: int, *, headers_only: bool = False) -> None:
        self._link = link
        self._subjects = [subjects] if isinstance(subjects, str) else subjects
        self._headers_only = headers_only
        self._after = after
        self._pull: Pull | None = None
        self._name = ""
        self._pending = 0
        self._expected = 1

    async def read(self, *, live: bool) -> tuple[int, Envelope] | None:
        """The next event and its sequence; None at the end of the stream, unless ``live``: then wait.

        Raises:
            BusError: the server stays away, or refuses.
        """
        while (message := await self.message(live=live)) is not None:
            with contextlib.suppress(msgspec.DecodeError):
                return self._after, decode_envelope(message.data)
            _log.warning("bus: %s holds something that is not an event at %d: skipped", message.subject, self._after)
        return None

    async def message(self, *, live: bool) -> Msg | None:
        """The next message as it is, an event or not; as :meth:`read`."""
        while True:
            pull = self._pull or await self._create()
            if not live and self._pending == 0:
                return None
            try:
                message = await pull.get(_BATCH if live else min(self._pending, _BATCH))
            except ConsumerGone:
                await self.stop()
                continue
            meta = message.metadata
            if meta.sequence.consumer != self._expected:
                await self.stop()
                continue
            self._expected, self._pending, self._after = self._expected + 1, meta.num_pending, meta.sequence.stream
            return message

    async def stop(self) -> None:
        """Stop listening, and let the server forget it."""
        pull, self._pull = self._pull, None
        if pull is None:
            return
        await pull.stop()
        subject = f"$JS.API.CONSUMER.DELETE.{STREAM}.{self._name}"
        if self._link.nc.is_connected and self._link.may(subject):
            # Without an answer: what goes wrong here, the idle limit puts right.
            with contextlib.suppress(nats.errors.Error):
                await self._link.nc.publish(subject, b"", reply=self._link.nc.new_inbox())

    async def _create(self) -> Pull:
        config = api.ConsumerConfig(
            filter_subjects=self._subjects,
            headers_only=self._headers_only or None,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._after + 1,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=_IDLE_SECONDS,
            num_replicas=1,
            mem_storage=True,
        )
        try:
            info = await self._link.retried(
                "open the stream for reading", lambda: self._link.js.add_consumer(STREAM, config)
            )
        except nats.js.errors.NotFoundError as error:
            raise BusError(f"the event bus at {self._link.url} has lost its stream {STREAM}") from error
        self._name, self._pending, self._expected = info.name, info.num_pending or 0, 1
        pull = Pull(self._link, self._name, ephemeral=True)
        await pull.start()
        self._pull = pull
        return pull


async def read_until(reader: Reader, until: int | None) -> list[tuple[int, Envelope]]:
    """Everything up to and with sequence ``until``, or up to the end."""
    events = []
    try:
        while (stored := await reader.read(live=False)) is not None and (until is None or stored[0] <= until):
            events.append(stored)
            if stored[0] == until:
                break
    finally:
        await reader.stop()
    return events


class Tail(AsyncIterator[tuple[int, Envelope]]):
    """Past events, then live ones, in stream order, each with its sequence. End it with :meth:`aclose`."""

    def __init__(self, reader: Reader, forget: Callable[["Tail"], None]) -> None:
        self._reader = reader
        self._forget = forget
        self._closed = False

    def __aiter__(self) -> "Tail":
        return self

    async def __anext__(self) -> tuple[int, Envelope]:
        """The next event; waiting for it may be cancelled.

        Raises:
            BusError: the server stayed away for too long.
        """
        while not self._closed:
            try:
                stored = await self._reader.read(live=True)
            except BusError:
                if self._closed:
                    break
                raise
            if stored is not None:
                return stored
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop listening."""
        self._closed = True
        self._forget(self)
        await self._reader.stop()

    async def __aenter__(self) -> "Tail":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
