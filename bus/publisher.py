"""Events onto the stream: each exactly once, whatever the server does meanwhile."""

import asyncio
from collections.abc import Iterable, Sequence

from nats.js.api import Header
from nats.js.errors import NotFoundError

from ..schemas import BusError, Envelope, encode_envelope
from .acks import BLOCK, IN_FLIGHT, Acks, Outgoing
from .link import Link
from .subjects import STREAM, event_subject

_HEADER_BYTES = 1024


class Publisher:
    """Publishes with the event's id as the message's: the stream drops a second copy, so a retry is always safe."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._acks = Acks(link)
        self._window = asyncio.Semaphore(IN_FLIGHT)

    async def publish(self, envelope: Envelope) -> int:
        """Store one event; its stream sequence (the first copy's, if it was there already).

        Raises:
            InputError: a name in the envelope cannot be part of a subject.
            BusError: it is too large, the server refuses, or stayed away for longer than patience.
        """
        return await self._publish(self._outgoing(envelope))

    async def publish_many(self, envelopes: Iterable[Envelope]) -> list[int]:
        """Store several, in their order as long as nothing has to be sent twice; their sequences.

        Raises:
            InputError, BusError: as :meth:`publish`, for the first that failed. The others are stored, unless nothing
                can be at all.
        """
        messages = [self._readied(envelope) for envelope in envelopes]
        events = [message for message in messages if isinstance(message, Outgoing)]
        stored: list[int | BaseException] = []
        for start in range(0, len(events), BLOCK):
            block = await self._publish_block(events[start : start + BLOCK])
            stored += block
            if not any(isinstance(sequence, int) for sequence in block):
                break  # patience is over: it need not be for every block again
        results = _results(messages, stored)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, int)]

    async def _publish_block(self, events: Sequence[Outgoing]) -> list[int | BaseException]:
        sequences = await self._acks.send(events)
        # A second copy is dropped: what was not acknowledged is sent again, with the patience and the reasons of one.
        missing = [event for event, sequence in zip(events, sequences, strict=True) if sequence is None]
        deadline = asyncio.get_running_loop().time() + self._link.patience
        publishing = [self._publish(event, deadline) for event in missing]
        again = iter(await asyncio.gather(*publishing, return_exceptions=True))
        return [next(again) if sequence is None else sequence for sequence in sequences]

    def _readied(self, envelope: Envelope) -> Outgoing | Exception:
        try:
            return self._outgoing(envelope)
        except Exception as error:  # noqa: BLE001 - one that cannot be written does not stop the others
            return error

    def _outgoing(self, envelope: Envelope) -> Outgoing:
        tag = envelope.tag
        data = encode_envelope(envelope)
        limit = self._link.nc.max_payload - _HEADER_BYTES
        if len(data) > limit:
            raise BusError(
                f"{tag} of session {envelope.session} is {len(data):,} bytes, the event bus takes {limit:,}: "
                "put what is large into an artifact"
            )
        return Outgoing(event_subject(envelope.session, envelope.pool, tag), data, envelope.id, tag, envelope.session)

    async def _publish(self, event: Outgoing, deadline: float | None = None) -> int:
        headers = {Header.MSG_ID.value: event.id}
        async with self._window:
            try:
                ack = await self._link.retried(
                    f"store {event.tag} of session {event.session}",
                    lambda: self._link.js.publish(event.subject, event.data, stream=STREAM, headers=headers),
                    subject=event.subject,
                    deadline=deadline,
                )
            except NotFoundError as error:
                raise BusError(f"the event bus at {self._link.url} has lost its stream {STREAM}") from error
        return ack.seq


def _results(
    messages: Sequence[Outgoing | Exception], stored: Sequence[int | BaseException]
) -> list[int | BaseException]:
    """What became of each, as far as it was tried: ``stored`` has no place for those that could not be written."""
    rest = iter(stored)
    results: list[int | BaseException] = []
    for message in messages:
        result = message if isinstance(message, Exception) else next(rest, None)
        if result is None:
            break
        results.append(result)
    return results
