"""One session read from the log as far as an export needs it: what each node was asked, answered and worth."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import duckdb
import msgspec

from ...schemas import (
    EVENTS,
    CandidateProposed,
    Event,
    Interval,
    ModelCalled,
    NodeDiagnosed,
    NodePlanned,
    Origin,
    SessionClosed,
    SessionOpened,
    SynthesisFailed,
    Verdict,
    event_tag,
)

KINDS: tuple[type[Event], ...] = (
    SessionOpened,
    NodePlanned,
    ModelCalled,
    CandidateProposed,
    SynthesisFailed,
    NodeDiagnosed,
    SessionClosed,
)
"""The events that are read."""

Extents = Mapping[str, tuple[int, int]]
"""Positions of the first and the last event of each session: without them every session would be a walk of the log."""

_TAGS = [event_tag(kind) for kind in KINDS]
_CHUNK = 64
_DEPTH = 10_000


@dataclass
class ExportedNode:
    """A node."""

    session: str
    opened: SessionOpened
    """What opened that session."""
    name: str
    plan: NodePlanned
    parent: "ExportedNode | None"
    """In this session, or in the one it was forked from."""
    parent_diagnosis: NodeDiagnosed | None
    """The parent's, as it stood when this node was planned."""
    calls: list[ModelCalled] = field(default_factory=list)
    """Requests of its author to a model, oldest first."""
    candidate: CandidateProposed | None = None
    failed: SynthesisFailed | None = None
    diagnosis: NodeDiagnosed | None = None
    """The latest: a confirmation overrides the first timing."""

    @property
    def reward(self) -> float:
        """Median speedup against the best baseline, or its interval's low end where that is too noisy; 0 if wrong."""
        diagnosis = self.diagnosis
        return float(diagnosis.fitness) if diagnosis is not None and diagnosis.verdict is Verdict.correct else 0.0

    @property
    def speedup(self) -> Interval | None:
        """With its interval; None if wrong."""
        return self.diagnosis.speedup if self.diagnosis is not None and self.reward > 0 else None


@dataclass
class ExportedSession:
    """A session."""

    session: str
    opened: SessionOpened
    closed: SessionClosed | None = None
    nodes: dict[str, ExportedNode] = field(default_factory=dict)
    inherited: dict[str, ExportedNode] = field(default_factory=dict)
    """Nodes of the sessions it was forked from."""

    @property
    def best(self) -> ExportedNode | None:
        """The node that the planner named at the end; of an open session the best so far."""
        if self.closed is not None:
            return self.nodes.get(self.closed.best) or self.inherited.get(self.closed.best)
        right = [node for node in self.nodes.values() if node.reward > 0]
        return max(right, key=lambda node: node.reward, default=None)

    def path(self, node: ExportedNode) -> list[ExportedNode]:
        """From its draft to ``node``, across forks."""
        path: list[ExportedNode] = []
        step: ExportedNode | None = node
        while step is not None and len(path) < _DEPTH:
            path.append(step)
            step = step.parent
        return path[::-1]


def read_session(con: duckdb.DuckDBPyConnection, session: str, extents: Extents) -> ExportedSession | None:
    """Fold the events of ``session``, and of the sessions it was forked from; None if its opening is not there."""
    return _read(con, session, extents, frozenset(), until=None)


def _read(
    con: duckdb.DuckDBPyConnection, session: str, extents: Extents, above: frozenset[str], *, until: Origin | None
) -> ExportedSession | None:
    record: ExportedSession | None = None
    for id, node, event in _events(con, session, extents):
        if isinstance(event, SessionOpened) and record is None:
            record = ExportedSession(session, event, inherited=_inherited(con, event, extents, above | {session}))
        elif record is not None:
            _fold(record, node, event)
        if until is not None and _is_last(until, id, node, event):
            break
    return record


def _inherited(
    con: duckdb.DuckDBPyConnection, opened: SessionOpened, extents: Extents, above: frozenset[str]
) -> dict[str, ExportedNode]:
    origin = opened.origin
    if origin is None or origin.session in above:
        return {}
    parent = _read(con, origin.session, extents, above, until=origin)
    return {} if parent is None else {**parent.inherited, **parent.nodes}


def _is_last(origin: Origin, id: str, node: str, event: Event) -> bool:
    """Whether a fork knows nothing of its parent after this event."""
    if origin.at:
        return id == origin.at
    return node == origin.node and isinstance(event, NodeDiagnosed)


def _fold(record: ExportedSession, name: str, event: Event) -> None:
    if isinstance(event, NodePlanned):
        parent = record.nodes.get(event.parent) or record.inherited.get(event.parent)
        diagnosis = parent.diagnosis if parent is not None else None
        record.nodes.setdefault(name, ExportedNode(record.session, record.opened, name, event, parent, diagnosis))
        return
    if isinstance(event, SessionClosed):
        record.closed = record.closed or event
        return
    node = record.nodes.get(name)
    if node is None:
        if isinstance(event, NodeDiagnosed) and name in record.inherited:
            # A fork measures what it goes on from again, maybe on other hardware.
            record.inherited[name] = replace(record.inherited[name], diagnosis=event)
        return
    match event:
        case ModelCalled() if not event.role:
            node.calls.append(event)
        case CandidateProposed():
            node.candidate = node.candidate or event
        case SynthesisFailed():
            node.failed = node.failed or event
        case NodeDiagnosed():
            node.diagnosis = event


def _events(con: duckdb.DuckDBPyConnection, session: str, extents: Extents) -> Iterable[tuple[str, str, Event]]:
    first, last = extents.get(session, (1, 0))
    with con.cursor() as cursor:
        result = cursor.execute(
            "SELECT id, node, tag, body FROM events "
            "WHERE seq BETWEEN ? AND ? AND session = ? AND tag IN (SELECT unnest(?)) ORDER BY seq",
            [first, last, session, _TAGS],
        )
        while chunk := result.fetchmany(_CHUNK):
            for id, node, tag, body in chunk:
                yield id, node, msgspec.json.decode(body, type=EVENTS[tag])


Choose = Callable[[ExportedNode], bool]
"""Whether a node is to be exported."""
