"""The envelope: who said what, when, in answer to what. Consumers decode it before they look at the body."""

from typing import Union

import msgspec

from .base import Schema, encode, sha256
from .events import EVENTS, Event


class Envelope(Schema, frozen=True, kw_only=True):
    """One event on the wire."""

    id: str
    """Deterministic: :func:`event_id`. Travels as ``Nats-Msg-Id``."""

    session: str
    """``[A-Za-z0-9_-]+``."""

    pool: str
    """Pool of the session."""

    node: str
    """Node of the search graph it speaks of; empty for the session as a whole."""

    cause: str
    """Id of the event it answers; empty for a session's first."""

    agent: str
    """Role: ``planner``, ``compiler``, …, or ``user``."""

    worker: str
    """Which worker of the role: ``host.pid.role.n``."""

    at_ns: int
    """Wall clock when it was published, nanoseconds since the epoch. Nothing may be decided by it."""

    body: msgspec.Raw
    """The event itself as JSON, tagged."""

    @property
    def tag(self) -> str:
        """The body's tag, read without decoding the rest of it."""
        return msgspec.json.decode(self.body, type=_Tagged).tag

    def event(self) -> Event | None:
        """The typed body, or None if this version does not know the tag."""
        try:
            return _ANY_EVENT.decode(self.body)
        except msgspec.ValidationError:
            # A tag that this version does not know is no error; a body that is not what its tag promises is one.
            if self.tag in EVENTS:
                raise
            return None


_ENCODER = msgspec.json.Encoder()
_ANY_EVENT: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[tuple(EVENTS.values())])  # noqa: UP007
"""Tag and body in one pass: replay decodes millions."""


class _Tagged(msgspec.Struct):
    tag: str


def event_id(session: str, cause: str, tag: str, index: int) -> str:
    """Identity of the ``index``-th event with ``tag`` that ``cause`` led to: 32 hex digits.

    A worker that handles the same input twice says the same ids twice, so an effect happens once.
    """
    return sha256(f"{session}\0{cause}\0{tag}\0{index}")[:32]


def seal(
    event: Event,
    *,
    session: str,
    pool: str,
    node: str,
    cause: str,
    agent: str,
    worker: str,
    at_ns: int,
    index: int = 0,
) -> Envelope:
    """Put ``event`` into an envelope with its deterministic id.

    Raises:
        ValueError: a float in the event is not finite.
    """
    return Envelope(
        id=event_id(session, cause, event_tag(type(event)), index),
        session=session,
        pool=pool,
        node=node,
        cause=cause,
        agent=agent,
        worker=worker,
        at_ns=at_ns,
        body=msgspec.Raw(encode(event)),
    )


def event_tag(kind: type[Event]) -> str:
    """The tag of an event type, ``candidate.proposed.v1``."""
    tag = kind.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def encode_envelope(envelope: Envelope) -> bytes:
    """The wire bytes of one event. Its body was looked at when it was sealed, and is not again."""
    return _ENCODER.encode(envelope)


def decode_envelope(data: bytes) -> Envelope:
    """Decode the wire bytes of one event.

    Raises:
        msgspec.ValidationError: not an envelope.
    """
    return msgspec.json.decode(data, type=Envelope)
