"""What the planner knows: plain data, changed only by :mod:`.machine`."""

from dataclasses import dataclass, field

from ...schemas import Advice, Interval, NodePlanned, SessionOpened, Verdict


@dataclass
class PlannedNode:
    """A node as the planner sees it."""

    name: str
    plan: NodePlanned
    verdict: Verdict | None = None
    """None while it is under way."""
    fitness: float = 0.0
    speedup: Interval | None = None
    against: str = ""
    roofline_fraction: float | None = None
    advice: tuple[Advice, ...] = ()
    children: list[str] = field(default_factory=list)
    confirmed: bool = False
    synthesis_failed: bool = False
    """No candidate came of it, so there is no source to start from."""

    @property
    def is_correct(self) -> bool:
        """Whether it was verified and timed."""
        return self.verdict is Verdict.correct

    @property
    def is_win(self) -> bool:
        """Whether its interval lies above 1 against the best baseline."""
        return self.speedup is not None and self.speedup.is_win


@dataclass
class PlannerState:
    """Fold of the events the planner answers: SessionOpened, NodeDiagnosed, StopRequested."""

    opened: SessionOpened | None = None
    inputs: int = 0
    """Events folded so far; part of the random seed of each decision."""
    nodes: dict[str, PlannedNode] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    confirming: list[str] = field(default_factory=list)
    """Finalists that await their confirmation, best first; empty outside the final phase."""
    finishing: str = ""
    """Why nothing new is planned; empty while searching."""
    closed: bool = False
    since_progress: int = 0
    """Diagnosed nodes since the best one improved."""
    best_seen: float = 0.0

    def correct(self) -> list[PlannedNode]:
        """Correct nodes, fittest first; ties in order of planning."""
        return sorted((node for node in self.nodes.values() if node.is_correct), key=lambda node: -node.fitness)
