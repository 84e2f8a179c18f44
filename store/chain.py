"""One message as one row of the log, and the hash that chains the rows. Pure."""

import functools
import hashlib
import re
from typing import Any, NamedTuple

import msgspec

from ..schemas import EVENTS, Envelope, decode_envelope

GENESIS = "0" * 64
"""What the first event is chained to."""

_ENCODER = msgspec.json.Encoder()
_VERSION = re.compile(r"\.v(\d{1,9})$")


class Row(NamedTuple):
    """A row of ``events``, in the table's column order."""

    seq: int
    id: str
    session: str
    pool: str
    node: str
    tag: str
    agent: str
    worker: str
    cause: str
    at_ns: int
    schema_version: int
    body: str
    hash: str
    wire: str

    @property
    def message(self) -> bytes:
        """The exact bytes that were on the wire."""
        return self.wire.encode() if self.wire else spell(self)

    @property
    def envelope(self) -> Envelope:
        """What the message says."""
        return decode_envelope(self.wire.encode()) if self.wire else _in_columns(self)


COLUMNS = ", ".join(Row._fields)
"""Of ``events``, as SQL asks for them."""


def read_message(data: bytes) -> Row:
    """Turn wire bytes into a row without position and hash (0 and empty).

    Raises:
        ValueError: not an envelope, or its body is not what its tag promises; the message says why.
            Such a message is nothing an agent could act on, and one of them would break every view.
    """
    text = data.decode()
    envelope = decode_envelope(data)
    if not 0 <= envelope.at_ns < 2**63:
        raise ValueError(f"at_ns is {envelope.at_ns}, not a time in nanoseconds")
    tag = envelope.tag
    kind = EVENTS.get(tag)
    msgspec.json.decode(envelope.body, type=dict if kind is None else kind)
    row = _row(envelope, tag)
    return row if spell(row) == data else row._replace(wire=text)


def spell(row: Row) -> bytes:
    """The message as this program spells it: the columns and the body in an envelope."""
    return _ENCODER.encode(_in_columns(row))


def link(row: Row, seq: int, previous: str, message: bytes | None = None) -> Row:
    """Give ``row``, which says ``message``, its position and chain it to the hash ``previous``."""
    digest = _hash((seq, *row[1:11]), previous, row.message if message is None else message)
    return Row(seq, *row[1:12], hash=digest, wire=row.wire)


def chain_hash(row: Row, previous: str) -> str:
    """Hex sha256 over the previous hash, every typed column, and the wire bytes, each on a line."""
    return _hash(row[:11], previous, row.message)


def disagreement(row: Row) -> str:
    """Name the typed column that says something else than the wire bytes; empty if all agree."""
    try:
        decoded = read_message(row.message)
    except (ValueError, msgspec.MsgspecError) as error:
        return f"its bytes are no event: {error}"
    for name, column, wire in zip(Row._fields[1:12], row[1:12], decoded[1:12], strict=True):
        if column != wire:
            return f"column {name} is {column!r:.80}, its bytes say {wire!r:.80}"
    return ""


class Chain:
    """The hash chain as far as it was followed."""

    def __init__(self, good: int = 0, head: str = GENESIS) -> None:
        self.head = head
        self.good = good
        """Position of the last event that was found good."""

    def follow(self, row: Row) -> str:
        """Go on to ``row``; what is wrong with it, or nothing."""
        return (disagreement(row) if row.seq == self.good + 1 else "") or self.step(row)

    def step(self, row: Row, envelope: Envelope | None = None) -> str:
        """As :meth:`follow`, in a tenth of the time: that the body is what its tag promises is left to its reader.

        Args:
            row: the next one.
            envelope: what it says, if it was made already.
        """
        if row.seq != self.good + 1:
            return f"it stands at position {row.seq}, events before it are missing or doubled"
        if row.wire and (wrong := disagreement(row)):
            return wrong
        message = _ENCODER.encode(envelope) if envelope is not None and not row.wire else row.message
        if row.hash != _hash(row[:11], self.head, message):
            return disagreement(row) or "its hash does not follow from its content and the event before it"
        self.head, self.good = row.hash, self.good + 1
        return ""


def _hash(columns: tuple[Any, ...], previous: str, message: bytes) -> str:
    return hashlib.sha256(b"\n".join((previous.encode(), _ENCODER.encode(columns), message))).hexdigest()


def _in_columns(row: Row) -> Envelope:
    return Envelope(
        id=row.id,
        session=row.session,
        pool=row.pool,
        node=row.node,
        cause=row.cause,
        agent=row.agent,
        worker=row.worker,
        at_ns=row.at_ns,
        body=msgspec.Raw(row.body.encode()),
    )


def _row(envelope: Envelope, tag: str) -> Row:
    return Row(
        seq=0,
        id=envelope.id,
        session=envelope.session,
        pool=envelope.pool,
        node=envelope.node,
        tag=tag,
        agent=envelope.agent,
        worker=envelope.worker,
        cause=envelope.cause,
        at_ns=envelope.at_ns,
        schema_version=_version(tag),
        body=bytes(envelope.body).decode(),
        hash="",
        wire="",
    )


@functools.lru_cache(1024)
def _version(tag: str) -> int:
    match = _VERSION.search(tag)
    return int(match[1]) if match else 0


def fingerprint(id: str) -> int:
    """The same number as DuckDB's ``md5_number_lower(id)``, so that opening a log needs no Python loop."""
    return int.from_bytes(hashlib.md5(id.encode(), usedforsecurity=False).digest()[8:], "little")
