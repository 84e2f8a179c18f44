"""The planner on the bus: folds what it answers up to the event in hand and says what :func:`decide` says."""

from collections.abc import Sequence

from ...schemas import Event, NodeDiagnosed, SessionClosed, SessionOpened, StopRequested
from ..runtime import Answer, Work
from .inheriting import begun
from .machine import decide


class Planner:
    """Decides where the search goes. Any number of planners may serve a pool: each folds the same log."""

    role = "planner"
    consumes: tuple[type[Event], ...] = (SessionOpened, NodeDiagnosed, StopRequested)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Decide on one event."""
        state = begun(work.graph)
        decisions = []
        for node, event in work.graph.decisive:
            decisions = decide(state, event, node)
        return [Answer(decision.event, decision.node) for decision in decisions]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """A planner that cannot decide ends the session rather than leaving it open for ever."""
        return [Answer(SessionClosed(reason="failed", detail=reason), "")]

    async def close(self) -> None:
        """Nothing to release."""
