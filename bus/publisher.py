"""Events onto the stream: each exactly once, whatever the server does meanwhile."""

import asyncio
from collections.abc import Iterable

from nats.js.api import Header
from nats.js.errors import NotFoundError

from ..schemas import BusError, Envelope, encode
from .link import Link
from .subjects import STREAM, event_subject

IN_FLIGHT = 256
"""Publishes that wait for their acknowledgement at a time."""

_HEADER_BYTES = 1024


class Publisher:
    """Publishes with the event's id as the message's: the stream drops a second copy, so a retry is always safe."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._window = asyncio.Semaphore(IN_FLIGHT)

    async def publish(self, envelope: Envelope) -> int:
        """Store one event; its stream sequence (the first copy's, if it was there already).

        Raises:
            InputError: a name in the envelope cannot be part of a subject.
            BusError: it is too large, the server refuses, or stayed away for longer than patience.
        """
        subject = event_subject(envelope.session, envelope.pool, envelope.tag)
        data = encode(envelope)
        limit = self._link.nc.max_payload - _HEADER_BYTES
        if len(data) > limit:
            raise BusError(
                f"{envelope.tag} of session {envelope.session} is {len(data):,} bytes, the event bus takes {limit:,}: "
                "put what is large into an artifact"
            )
        headers = {Header.MSG_ID.value: envelope.id}
        async with self._window:
            try:
                ack = await self._link.retried(
                    f"store {envelope.tag} of session {envelope.session}",
                    lambda: self._link.js.publish(subject, data, stream=STREAM, headers=headers),
                    subject=subject,
                )
            except NotFoundError as error:
                raise BusError(f"the event bus at {self._link.url} has lost its stream {STREAM}") from error
        return ack.seq

    async def publish_many(self, envelopes: Iterable[Envelope]) -> list[int]:
        """Store several, in their order as long as nothing has to be sent twice; their sequences.

        Raises:
            InputError, BusError: as :meth:`publish`, for the first that failed; the others are stored.
        """
        results = await asyncio.gather(*map(self.publish, envelopes), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, int)]
