"""The search graph of a session: a fold over its events, shared by every agent that looks back."""

from collections.abc import Sequence

from ..schemas import (
    AuthorBenched,
    BaselinesMeasured,
    ChoiceMade,
    ChoicesOffered,
    Envelope,
    Event,
    Intent,
    ModelCalled,
    NodeDiagnosed,
    RoleDecided,
    SessionClosed,
    SessionOpened,
    StopRequested,
)
from .inheritance import NOTHING, Inheritance, LoggedEvent, inherit
from .nodes import NodeRecord
from .tasks import ABOUT_TASKS, SessionTasks

DECISIVE = frozenset((SessionOpened, NodeDiagnosed, StopRequested, ChoiceMade))
"""What the planner answers."""
_OF_THE_SESSION = frozenset(
    (
        *(SessionOpened, BaselinesMeasured, StopRequested, SessionClosed),
        # The node that they name may not be planned yet, or ever.
        *(ModelCalled, RoleDecided, ChoicesOffered, ChoiceMade, AuthorBenched),
    )
)
"""What is about no node, whatever it names."""


class SearchGraph:
    """Fold of a session's events in stream order. The same events give the same graph.

    A fork's graph begins with what it inherits: ``before`` are the events that :func:`.inheritance.inherited` reads.
    """

    def __init__(self, session: str, before: Sequence[LoggedEvent] = ()) -> None:
        self.session = session
        self.opened: SessionOpened | None = None
        self.opened_id = ""
        self.opened_ns = 0
        """When it was opened, nanoseconds since the epoch."""
        self.inheritance: Inheritance = NOTHING
        """What a fork knows from before it was opened; known from its opening event on."""
        self.baselines: BaselinesMeasured | None = None
        self.stop: StopRequested | None = None
        self.stop_ns = 0
        """When that was said, nanoseconds since the epoch."""
        self.closed: SessionClosed | None = None
        self.nodes: dict[str, NodeRecord] = {}
        """By name: inherited ones first, then the session's own."""
        self.calls: list[ModelCalled] = []
        self.decisive: list[tuple[str, Event]] = []
        """What the planner answers, as (node, event) in stream order."""
        self.tasks = SessionTasks(session)
        """Of the session's outside authors."""
        self._before = before

    def apply(self, envelope: Envelope, event: Event) -> None:
        """Fold one event in."""
        # By sets, since most events are about a node: a match would ask five times for each of them.
        kind = type(event)
        if kind in DECISIVE:
            self.decisive.append((envelope.node, event))
        if kind in ABOUT_TASKS:
            self.tasks.apply(envelope, event)
        if kind in _OF_THE_SESSION:
            self._apply_to_session(envelope, event)
        elif envelope.node:
            node = self.nodes.get(envelope.node)
            if node is None:
                node = self.nodes[envelope.node] = NodeRecord(envelope.node, envelope.session)
            node.apply(envelope, event)

    def _apply_to_session(self, envelope: Envelope, event: Event) -> None:
        match event:
            case SessionOpened():
                self.opened, self.opened_id, self.opened_ns = event, envelope.id, envelope.at_ns
                self.inheritance = inherit(event, self._before)
                self.nodes = dict(self.inheritance.nodes)
            case BaselinesMeasured():
                self.baselines = event
            case StopRequested():
                self.stop, self.stop_ns = event, envelope.at_ns
            case SessionClosed():
                self.closed = event
            case ModelCalled():
                self.calls.append(event)

    @property
    def waits_for_outside(self) -> bool:
        """Whether nothing is under way but tasks that nobody holds, after outside authors had some."""
        free = {task.node for task in self.tasks.free()}
        under_way = {node.name for node in self.own() if node.diagnosis is None}
        return self.stop is None and bool(free) and under_way == free and self.tasks.had_authors

    def own(self) -> list[NodeRecord]:
        """The session's own nodes, in order of planning: what was inherited is not among them."""
        return [node for name, node in self.nodes.items() if name not in self.inheritance.nodes]

    def lineage(self, name: str) -> list[NodeRecord]:
        """The node and its ancestors, nearest first."""
        out: list[NodeRecord] = []
        seen: set[str] = set()
        while name and name in self.nodes and name not in seen:
            seen.add(name)
            out.append(self.nodes[name])
            name = self.nodes[name].parent
        return out

    def children(self, name: str) -> list[NodeRecord]:
        """Nodes planned from ``name``, or from the inherited node that it measured again, in order of planning."""
        plan = self.nodes[name].plan if name in self.nodes else None
        names = {name, plan.parent} if plan is not None and plan.intent is Intent.remeasure else {name}
        return [node for node in self.nodes.values() if node.parent in names - {""} and node.name not in names]

    def best(self) -> NodeRecord | None:
        """The fittest correct node of the session's own; a confirmed measurement counts in place of the first one."""
        correct = [node for node in self.own() if node.fitness > 0]
        return max(correct, key=lambda node: node.fitness, default=None)


__all__ = ["DECISIVE", "NodeRecord", "SearchGraph"]
