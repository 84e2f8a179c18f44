"""What the planner knows: plain data, changed only by :mod:`.machine`."""

from bisect import insort
from dataclasses import dataclass, field
from itertools import islice

from ...schemas import Advice, AuthorBenched, Interval, NodeChoice, NodePlanned, SessionOpened, ShapeSpeedup, Verdict

NOISE = 1.01
"""A ratio up to this says nothing: neither progress of a search, nor a finalist worth more samples."""


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
    ordinary: Interval | None = None
    """The speedup in ordinary processes, where that was measured."""
    ordinary_against: str = ""
    ordinary_missing: str = ""
    """Why it was not measured, although it was wanted."""
    shapes: tuple[ShapeSpeedup, ...] = ()
    """Its speedups by shape, where several are timed."""
    absent: dict[str, str] = field(default_factory=dict)
    """Baselines that it was not compared with, and why."""
    pending: tuple[str, ...] = ()
    """Those of them that may still join: they had not, by the latest diagnosis of all."""
    joined_ratio: float = 1.0
    """What :attr:`speedup` is to be multiplied with, now that baselines have joined that it was not compared with."""
    roofline_fraction: float | None = None
    advice: tuple[Advice, ...] = ()
    children: list[str] = field(default_factory=list)
    confirmations: int = 0
    """How often it was timed as a finalist."""
    synthesis_failed: bool = False
    """No candidate came of it, so there is no source to start from."""
    failure: str = ""
    """Why no candidate came of it; empty if one did."""
    summary: str = ""
    """The analyst's sentence on it."""
    broken_contract: str = ""
    """Why it is no win whatever was measured."""
    counts_device_alone: bool = False
    """Whether the judge's interval decides: on an accelerator, unless the session goes by the call."""
    is_refuted: bool = False
    """Whether a finalist's timing showed that its first one was false."""
    inherited: bool = False
    """Whether a fork has it from its parent: something to start from, not a result of its own."""

    @property
    def is_correct(self) -> bool:
        """Whether it was verified and timed."""
        return self.verdict is Verdict.correct

    @property
    def confirmed(self) -> bool:
        """Whether it was timed as a finalist."""
        return self.confirmations > 0

    @property
    def reported(self) -> Interval | None:
        """The speedup that people are told: in ordinary processes where that was measured and counts, else the
        judge's."""
        return self.speedup if self.counts_device_alone else self.ordinary or self.speedup

    @property
    def is_win(self) -> bool:
        """Whether its interval lies above 1, and the one of ordinary processes as well where that was wanted."""
        return not self.obstacle and bool(intervals := self.counted) and all(interval.is_win for interval in intervals)

    @property
    def obstacle(self) -> str:
        """Why it cannot be a win, whatever its intervals are; empty if it can."""
        return self.broken_contract or ("" if self.counts_device_alone else self.ordinary_missing)

    @property
    def expected(self) -> Interval | None:
        """Its speedup as far as it can be known against baselines that joined later: what it is ranked by."""
        if self.speedup is None or self.joined_ratio == 1.0:
            return self.speedup
        ends = (self.speedup.median, self.speedup.low, self.speedup.high)
        median, low, high = (end * self.joined_ratio for end in ends)
        return Interval(median=median, low=low, high=high)

    @property
    def worst_shape(self) -> tuple[str, Interval] | None:
        """The timed shape with the least of the reported speedups; None where one shape is timed."""
        by_shape = [
            (shape.shape, shape.speedup if self.counts_device_alone else shape.ordinary or shape.speedup)
            for shape in self.shapes
        ]
        return min(by_shape, key=lambda entry: entry[1].median, default=None)

    @property
    def is_undecided(self) -> bool:
        """Whether more samples may show that it is a win: it stands above 1, and an interval reaches below."""
        intervals = self.counted
        if not self.is_correct or self.is_win or self.obstacle or not intervals:
            return False
        return all(interval.median > NOISE for interval in intervals)

    @property
    def counted(self) -> list[Interval]:
        """Its intervals that have a say in whether it is a win."""
        intervals = (self.speedup,) if self.counts_device_alone else (self.speedup, self.ordinary)
        return [interval for interval in intervals if interval is not None]


@dataclass
class AuthorRecord:
    """What the planner knows of one of several authors."""

    planned: int = 0
    """Nodes that were given to it."""
    failures: int = 0
    """Syntheses in a row that failed."""
    alike: int = 0
    """Of them, the latest that failed for one reason that another plan would not change."""
    reason: str = ""
    """That reason."""
    is_out: bool = False
    """Whether it gets no more nodes: it has nothing new to propose, or fails."""


@dataclass(frozen=True)
class Offer:
    """Candidates for the next node, of which a model chooses."""

    number: int
    """Position that the node will have among the session's nodes, from 1."""
    draw: int
    """Its draw, as in NodePlanned."""
    choices: tuple[NodeChoice, ...]


@dataclass
class PlannerState:
    """Fold of the events the planner answers: SessionOpened, NodeDiagnosed, StopRequested, ChoiceMade.

    A fork's state does not begin empty but with :func:`.inheriting.begun`.
    """

    opened: SessionOpened | None = None
    inputs: int = 0
    """Events folded so far; part of the random seed of each decision."""
    nodes: dict[str, PlannedNode] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    confirming: list[str] = field(default_factory=list)
    """Finalists that await their confirmation, best first; empty outside the final phase."""
    seeming: list[str] = field(default_factory=list)
    """Nodes that seem to reach an aim of the search: a first timing says so, which is not trusted."""
    offer: Offer | None = None
    """What a model is to choose from; None where nothing is on offer."""
    is_out_of_time: bool = False
    """Whether its minutes are over, whatever it was finishing for."""
    is_floor_passed: bool = False
    """Whether a candidate was faster than the roofline's floor: then that is none."""
    is_asked_to_stop: bool = False
    """Whether a StopRequested says that it ends."""
    finishing: str = ""
    """Why nothing new is planned; empty while searching."""
    obstacle: str = ""
    """How the reference died, if that is why it stops; one sentence."""
    closed: bool = False
    since_progress: int = 0
    """Diagnosed nodes since the best one improved."""
    best_seen: float = 0.0
    failure: str = ""
    """Why the last synthesis failed; empty if it did not."""
    failures_alike: int = 0
    """Syntheses in a row that failed for that reason."""
    authors: dict[str, AuthorRecord] = field(default_factory=dict)
    """Of several authors what became of the nodes of each, by backend; empty where there is one."""
    benched: list[AuthorBenched] = field(default_factory=list)
    """Of several authors those that get no more nodes, first to last; older sessions do not say so."""
    benched_said: int = 0
    """Of them, those that were said."""
    unmade: int = 0
    """Nodes of theirs that no candidate came of: with several authors these cost no budget."""
    starts: tuple[str, ...] = ()
    """Inherited nodes that a fork measures again before anything else."""
    first_number: int = 1
    """Number in the name of the first node of its own."""

    _order: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    _own: list[PlannedNode] = field(default_factory=list, repr=False, compare=False)
    _correct: list[PlannedNode] = field(default_factory=list, repr=False, compare=False)
    _broken: list[PlannedNode] = field(default_factory=list, repr=False, compare=False)
    _placed: set[str] = field(default_factory=set, repr=False, compare=False)
    # The five follow from `nodes`: a policy asks for them with every plan, and a session may have thousands of nodes.

    def own(self) -> list[PlannedNode]:
        """The session's own nodes in order of planning: what budgets, finalists and results speak of. Not a copy."""
        self._catch_up()
        return self._own

    def correct(self) -> list[PlannedNode]:
        """Correct nodes that may be gone on from, inherited ones included; fittest first, ties in order of planning.

        Not a copy.
        """
        self._catch_up()
        return self._correct

    def broken(self) -> list[PlannedNode]:
        """Nodes that were judged and are not correct, from which nothing was planned yet, in order of planning."""
        self._catch_up()
        self._broken = [node for node in self._broken if not node.children]
        return self._broken

    def judged(self, node: PlannedNode) -> None:
        """``node`` has a new verdict or fitness: it finds its place again."""
        self._catch_up()
        if node.name in self._placed:
            self._correct = [ranked for ranked in self._correct if ranked is not node]
            self._broken = [ranked for ranked in self._broken if ranked is not node]
        self._rank(node)

    def _catch_up(self) -> None:
        if len(self._order) == len(self.nodes):
            return
        for node in islice(self.nodes.values(), len(self._order), None):
            self._order[node.name] = len(self._order)
            if not node.inherited:
                self._own.append(node)
            self._rank(node)

    def _rank(self, node: PlannedNode) -> None:
        if node.verdict is None:
            return
        self._placed.add(node.name)
        if node.is_correct:
            insort(self._correct, node, key=lambda ranked: (-ranked.fitness, self._order[ranked.name]))
        else:
            insort(self._broken, node, key=lambda ranked: self._order[ranked.name])
