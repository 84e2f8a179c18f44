"""How fast a candidate is beside its baselines."""

from .base import Schema

LARGEST_REACH = 6.0
"""Of an interval its high end over its low one: beyond that nobody knows which is faster if 1 is in it, and what was
timed once is not said to be."""

NOISE = "too noisy to tell"
"""What is shown in place of a speedup that is no finding."""

LEAST_LOAD = 0.2
"""Share of the cores that others kept busy, from which on people are told."""
WIDE = 3.0
"""Of an interval that is a finding, its high end over its low one, from which on people are told."""


class Interval(Schema, frozen=True, kw_only=True):
    """A ratio, and where another run of the same would find it, 95 of 100 times."""

    median: float
    low: float
    high: float

    @property
    def is_win(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low > 1.0

    @property
    def is_noise(self) -> bool:
        """Whether it has 1 in it and its ends are more than a factor of six apart: its median is then no finding."""
        return self.low <= 1.0 <= self.high and self.is_vague

    @property
    def is_vague(self) -> bool:
        """Whether its ends are more than a factor of six apart, wherever they lie."""
        return self.high > LARGEST_REACH * self.low

    @property
    def cautious(self) -> float:
        """What may be gone on from: the median, or where that is no finding the low end."""
        return self.low if self.is_noise else self.median

    @property
    def brief(self) -> str:
        """``1.20x``; where the median is no finding ``too noisy (0.15 to 2.85)``."""
        return str(self) if self.is_noise else f"{self.median:.2f}x"

    @property
    def cells(self) -> tuple[str, str]:
        """For a table: the ratio, and its interval; none where it is noise."""
        return ("too noisy", "") if self.is_noise else (f"{self.median:.2f}x", f"{self.low:.2f} to {self.high:.2f}")

    @property
    def in_words(self) -> str:
        """For people: ``1.20x (1.10 to 1.30)``, or ``too noisy to tell``."""
        return NOISE if self.is_noise else str(self)

    @property
    def ratio_in_words(self) -> str:
        """``1.20x``, or ``too noisy to tell``."""
        return NOISE if self.is_noise else f"{self.median:.2f}x"

    def doubts(self, load: float) -> str:
        """What speaks against it where it was timed once, beside a background ``load``; empty if nothing does, and of
        noise, which is no finding anyway."""
        reasons = [f"beside a background load of {load:.0%}"] if load >= LEAST_LOAD else []
        reasons += ["with a wide interval"] if self.high > WIDE * self.low else []
        return f"timed once, {' and '.join(reasons)}" if reasons and not self.is_noise else ""

    def __str__(self) -> str:
        """``1.20x (1.10 to 1.30)``, as events have it: also of noise, ``too noisy (0.00 to 80.00)``."""
        ratio = "too noisy" if self.is_noise else f"{self.median:.2f}x"
        return f"{ratio} ({self.low:.2f} to {self.high:.2f})"


class Series(Schema, frozen=True, kw_only=True):
    """Raw samples of one implementation in one run."""

    name: str
    """``eager``, ``compile``, ``max_autotune`` or ``candidate``."""

    samples_ns: tuple[int, ...]
    """Time of one call, nanoseconds, one sample a round; sample i of every series was taken in round i. The rounds of
    each process of the candidate follow each other, see :attr:`Timing.rounds`."""

    calls: int
    """Calls that one sample is the mean of."""


class Timing(Schema, frozen=True, kw_only=True):
    """An interleaved run: in every round each implementation was timed once.

    Of a problem with several timed shapes: their weighted geometric mean, and the run at each of them in
    :attr:`shapes`.
    """

    series: tuple[Series, ...]
    """Baselines and candidate; empty where :attr:`shapes` have them."""

    rounds: tuple[int, ...] = ()
    """Rounds in each process of the candidate, in the order of the samples; empty in events from when there was one."""

    first: bool = False
    """Whether what was timed went before everybody else on the machine: in old histories only (docs/decisions/0012)."""

    speedup: dict[str, Interval]
    """Ratio of the times in :attr:`median_ms`, by baseline's name: above 1 the candidate is faster."""

    best: str
    """Name of the fastest baseline in this run: the one that counts. ``best_per_shape`` where that is not the same one
    at all shapes."""

    median_ms: dict[str, float]
    """Time by name, milliseconds: the median of the samples, and the geometric mean of these over the processes of the
    candidate."""

    spread: float = 0.0
    """Standard deviation from run to run that is usual beyond what samples show, as a share of the ratio; the intervals
    allow for it. 0 in events from before it was."""

    measure: str = ""
    """What a time is on an accelerator: ``graph``: of a call among many that the device replays as one CUDA graph, with
    a cold cache; ``events``: between events around a single call that was launched, cache flushed, where calls cannot
    be recorded. Empty on a processor, and in events from before there were two."""

    warm_ms: dict[str, float] = {}
    """The same with a warm cache, by name, where calls are replayed."""

    alone_ms: dict[str, float] = {}
    """Time of a call by name, milliseconds, where the inputs of each call come after the answer of the one before:
    of finalists that are timed from outside, and of calls that are replayed: the candidate's there less what honest
    ones take more, the baselines' as among many. :attr:`speedup` is no higher than these times allow. Empty where a
    batch has one call anyway, for several shapes, and in older events."""

    run_spread: float = 0.0
    """The part of :attr:`spread` that all processes of this run have in common. 0 in older events."""

    background_load: float = 0.0
    """Share of the cores that others kept busy meanwhile, from 0 to 1, on the mean of the processes. 0 in older
    events."""

    shapes: tuple["ShapeTiming", ...] = ()
    """The run at every timed shape, where there are several; else empty."""

    absent: dict[str, str] = {}
    """Baselines of the pool that this run was to have and had not, by name, and why; a clause. Empty in older
    events, which had all that could be compiled."""

    pending: tuple[str, ...] = ()
    """Those of :attr:`absent` that were still being compiled, and may join. Empty in older events."""

    def baseline(self, against: str) -> str:
        """Name of the baseline that a win counts against: the one that ``against`` names, if it was timed, else the
        best."""
        return against if against in self.speedup else self.best

    @property
    def largest_load(self) -> float:
        """:attr:`background_load`, of several shapes the largest."""
        return max([self.background_load, *(shape.timing.background_load for shape in self.shapes)])

    def worst_shape(self, against: str = "best") -> "ShapeTiming | None":
        """The shape with the least speedup against the baseline that counts there; None where one shape is timed."""
        return min(self.shapes, key=lambda shape: shape.counted(against).median, default=None)


class ShapeTiming(Schema, frozen=True, kw_only=True):
    """The interleaved run at one of several timed shapes."""

    shape: str
    """Its name in the problem."""

    weight: float
    """As :attr:`.ShapeFacts.weight`."""

    timing: Timing

    roofline: "Roofline | None" = None
    """Of the candidate at this shape; None in ordinary processes."""

    def counted(self, against: str = "best") -> Interval:
        """The speedup against the baseline that counts at this shape."""
        return self.timing.speedup[self.timing.baseline(against)]


class ShapeSpeedup(Schema, frozen=True, kw_only=True):
    """What a candidate is worth at one of several timed shapes."""

    shape: str
    weight: float
    """As :attr:`.ShapeFacts.weight`."""
    speedup: Interval
    """By the interleaved benchmark, against :attr:`against`."""
    against: str
    """Name of the baseline that counts at this shape."""
    ordinary: Interval | None = None
    """In ordinary processes, where that was measured; on an accelerator of the call."""
    ordinary_against: str = ""


class BaselineStatus(Schema, frozen=True, kw_only=True):
    """How a baseline came to be, or why there is none."""

    name: str
    """``eager``, ``compile`` or ``max_autotune``."""

    ok: bool
    """Whether it is timed."""

    seconds: float
    """Time to compile it, seconds."""

    detail: str = ""
    """Why it is missing."""

    compiled: int = 0
    """Graphs that were compiled for it; 0 in older events."""

    kept: int = 0
    """Graphs that an earlier process had compiled; 0 in older events."""

    pending: bool = False
    """Whether it is still compiled, in the background: another event says what became of it. False in older events."""


class Roofline(Schema, frozen=True, kw_only=True):
    """How close to the machine's limit; over several shapes the weighted geometric means."""

    floor_ms: float
    """max(bytes / copy bandwidth, operations / peak): no implementation is faster."""

    fraction: float
    """floor / candidate's median; 1 is the machine's limit."""

    limit: str
    """``memory`` or ``compute``: which term the floor comes from."""


class BaselineReport(Schema, frozen=True, kw_only=True):
    """The baselines of a problem on a pool, compiled once and kept."""

    statuses: tuple[BaselineStatus, ...]
    median_ms: dict[str, float]
    """Quick first timing by name; what counts is timed with every candidate."""
    best: str
    roofline: Roofline
    """Of the best baseline."""
    seconds: float = 0.0
    measure: str = ""
    """As :attr:`Timing.measure`."""
    not_replayed: str = ""
    """Why calls are not replayed as a graph on an accelerator; a clause."""
    shapes: tuple["ShapeBaselines", ...] = ()
    """The baselines at every timed shape, where there are several: each is compiled for that shape. Then times and
    roofline are weighted geometric means."""


class ShapeBaselines(Schema, frozen=True, kw_only=True):
    """The baselines at one of several timed shapes."""

    shape: str
    weight: float
    report: BaselineReport
