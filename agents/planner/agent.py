"""The planner on the bus: folds what it answers up to the event in hand and says what :func:`decide` says.

Where the session names a model for it, the machine offers the policy's candidates as an event. The planner asks the
model about them and publishes the choice, which is an event that the machine answers like any other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ...graph.session_graph import SearchGraph
from ...schemas import (
    ChoiceMade,
    ChoicesOffered,
    Event,
    NodeDiagnosed,
    SessionClosed,
    SessionOpened,
    StopRequested,
)
from ..consulting import AdvisedAgent, consult, settled
from ..consulting.consultation import Adviser
from ..runtime import Answer, LatestUsed, Work
from .by_model import consultation
from .inheriting import begun
from .machine import decide
from .state import PlannerState


@dataclass
class _Fold:
    """How far one worker's graph of a session was decided on."""

    graph: SearchGraph
    state: PlannerState
    events: int = 0


class Planner(AdvisedAgent):
    """Decides where the search goes. Any number of planners may serve a pool: each folds the same log."""

    role = "planner"
    consumes: tuple[type[Event], ...] = (SessionOpened, NodeDiagnosed, StopRequested, ChoicesOffered, ChoiceMade)

    def __init__(self, adviser: Adviser | None = None) -> None:
        """Without ``adviser`` the policy decides."""
        super().__init__(adviser)
        self._folds: LatestUsed[list[_Fold]] = LatestUsed(list)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Decide on one event. Folding a fork's or a long session's past takes a while, so a thread does it."""
        if isinstance(work.event, ChoicesOffered):
            answers, made = await consult(self._adviser, work, consultation(work.graph, work.event))
            return [*answers, Answer(made)]
        return await asyncio.to_thread(self._decide, work)

    def _decide(self, work: Work) -> Sequence[Answer]:
        graph, held = work.graph, self._folds[work.graph.session]
        # A repeated delivery, and one that another worker's graph comes with, is decided from the beginning; so is one
        # after a decision that failed half-way.
        fold = held.pop() if held else _Fold(graph, begun(graph))
        if fold.graph is not graph or fold.events >= len(graph.decisive):
            fold = _Fold(graph, begun(graph))
        decisions = []
        for node, event in graph.decisive[fold.events :]:
            decisions = decide(fold.state, event, node)
            fold.events += 1
        held[:] = [fold]
        return [Answer(decision.event, decision.node) for decision in decisions]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """A planner that cannot decide ends the session rather than leaving it open for ever; one that cannot ask a
        model goes by its policy."""
        if isinstance(work.event, ChoicesOffered):
            return [Answer(event) for event in settled(consultation(work.graph, work.event), (), reason)]
        return [Answer(SessionClosed(reason="failed", detail=reason), "")]
