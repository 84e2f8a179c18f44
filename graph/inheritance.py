"""What a fork knows from before it was opened: its parent's events up to a point, and the parent's own inheritance.

Nothing is copied. A fork's first event names the parent and the last event it knows of it (:class:`Origin`); everybody
who needs the past reads it where it lies: in the stream or in the log, which hold the same events in the same order.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..schemas import Envelope, Event, KernelswarmError, NodeDiagnosed, NodePlanned, Origin, SessionOpened
from .nodes import NodeRecord

MOST_STARTS = 3
"""Nodes that a fork as of an event measures again before it goes on."""

LoggedEvent = tuple[Envelope, Event]
"""An event and its envelope."""

ReadSession = Callable[[str], Awaitable[Sequence[Envelope]]]
"""Reads every event of a session, oldest first."""


async def inherited(opened: SessionOpened, read: ReadSession) -> list[LoggedEvent]:
    """What a session opened by ``opened`` knows from before, as :func:`inherited_at`; nothing if it is no fork."""
    return await inherited_at(opened.origin, read)


async def inherited_at(origin: Origin | None, read: ReadSession) -> list[LoggedEvent]:
    """Every event that is known of the past at ``origin``, oldest first.

    Forks of forks go on into their parent's inheritance. What comes out depends on the events alone, so it is the same
    from the stream, from the log, today and in a replay.

    Args:
        origin: where the fork was made; None for a session that is none.
        read: reads a session's events, from wherever they are.

    Raises:
        KernelswarmError: a parent, or the event it was forked at, is not there.
    """
    parts: list[list[LoggedEvent]] = []
    seen: set[str] = set()
    while origin is not None:
        if origin.session in seen:
            raise KernelswarmError(f"session {origin.session} is its own ancestor: the log is damaged")
        seen.add(origin.session)
        part = parent_events(origin, await read(origin.session))
        parts.append(part)
        first = part[0][1]
        if not isinstance(first, SessionOpened):
            raise KernelswarmError(f"session {origin.session} was forked, but its opening event is not in this log")
        origin = first.origin
    return [entry for part in reversed(parts) for entry in part]


def parent_events(origin: Origin, envelopes: Iterable[Envelope]) -> list[LoggedEvent]:
    """The parent's events up to and with the one it was forked at; each id once.

    Raises:
        KernelswarmError: that event is not among them.
    """
    entries: dict[str, LoggedEvent] = {}
    for envelope in envelopes:
        event = envelope.event()
        if event is None or envelope.id in entries:
            continue
        entries[envelope.id] = envelope, event
        if envelope.id == origin.at or (not origin.at and is_diagnosis(envelope, event, origin.node)):
            return list(entries.values())
    fork_point = f"event {origin.at}" if origin.at else f"a diagnosis of node {origin.node}"
    raise KernelswarmError(f"session {origin.session} was forked at {fork_point}, which is not in this log: import it")


def is_diagnosis(envelope: Envelope, event: Event, node: str) -> bool:
    """Whether it is the first word on what ``node`` is worth."""
    return isinstance(event, NodeDiagnosed) and envelope.node == node and not event.confirmation


@dataclass(frozen=True)
class Inheritance:
    """The past of a fork, as its agents see it."""

    nodes: Mapping[str, NodeRecord]
    """Every node that was diagnosed by then. Those measured on other hardware have lost what was measured."""
    starts: tuple[str, ...] = ()
    """Those that the fork measures again first: its node, or as of an event the fittest."""
    last_number: int = 0
    """Highest number of a node's name in the past: own nodes are numbered on from it, so no two share a name."""


NOTHING = Inheritance({})
"""Of a session that is no fork."""


def inherit(opened: SessionOpened, before: Iterable[LoggedEvent]) -> Inheritance:
    """Fold the events ``before`` a fork into what it begins with. Pure."""
    if opened.origin is None:
        return NOTHING
    openings: dict[str, SessionOpened] = {}
    records: dict[str, NodeRecord] = {}
    for envelope, event in before:
        if isinstance(event, SessionOpened):
            openings[envelope.session] = event
        elif envelope.node and (isinstance(event, NodePlanned) or envelope.node in records):
            records.setdefault(envelope.node, NodeRecord(envelope.node, envelope.session)).apply(envelope, event)
    nodes = {name: record for name, record in records.items() if record.diagnosis is not None}
    starts = (opened.origin.node,) if opened.origin.node else _fittest(nodes.values())
    for record in nodes.values():
        if not comparable(openings.get(record.session), opened):
            _forget_measurements(record)
    return Inheritance(nodes, starts[: max(1, opened.budget)], max(map(_number, records), default=0))


def comparable(a: SessionOpened | None, b: SessionOpened) -> bool:
    """Whether speedups measured in both sessions may be compared: the same machine, limits and baselines."""
    return a is not None and _setting(a) == _setting(b)


def _setting(opened: SessionOpened) -> tuple[object, ...]:
    pool, hardware = opened.pool, opened.hardware
    return (
        *(pool.platform, pool.threads, pool.compiler, pool.baselines),
        *(hardware.device, hardware.cores, hardware.isa, hardware.torch, hardware.compilers),
    )


def _fittest(records: Iterable[NodeRecord]) -> tuple[str, ...]:
    """The fastest correct nodes, each source once."""
    ranked = sorted((record for record in records if record.fitness > 0), key=lambda record: -record.fitness)
    by_source: dict[str, str] = {}
    for record in ranked:
        if record.candidate is not None:
            by_source.setdefault(record.candidate.sha256, record.name)
    return tuple(by_source.values())[:MOST_STARTS]


def _forget_measurements(record: NodeRecord) -> None:
    record.elsewhere = True
    record.compile_report = record.verify_report = record.profile_report = None
    record.diagnosis = record.confirmation = record.confirmation_diagnosis = None


def _number(name: str) -> int:
    digits = name.lstrip("n")
    return int(digits) if digits.isdecimal() else 0
