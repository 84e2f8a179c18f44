"""What outside authors are told: tasks, leases, checks, verdicts, the leaderboard."""

from ...schemas import (
    Advice,
    BaselineStatus,
    Diagnostic,
    Evidence,
    Finding,
    HardwareFacts,
    Interval,
    KernelResources,
    Schema,
    ShapeFacts,
    Verdict,
)


class TaskRow(Schema, frozen=True, kw_only=True):
    """A task in a list."""

    task: str
    """``SESSION/NODE``."""
    problem: str
    pool: str
    languages: tuple[str, ...]
    intent: str
    """``draft``, ``improve`` or ``repair``."""
    parent: str
    """Node it starts from; empty for a draft."""
    state: str
    """``free``, ``held``, ``handed in`` or ``withdrawn``."""
    agent: str = ""
    """Who holds it, or handed it in."""
    lease: str = ""
    """``SESSION/NODE/N``, where it is held."""
    minutes_left: float | None = None
    """Of the lease."""
    verdict: Verdict | None = None
    speedup: float | None = None
    """Median by the judge, where it was timed."""
    noisy: bool = False
    """Whether that is too noisy to tell."""


class NodeAnswer(Schema, frozen=True, kw_only=True):
    """What is known of a node: the answer to a hand-in, or a kernel to start from."""

    task: str
    state: str
    """``waiting`` (no candidate yet), ``judging``, ``judged``, ``failed`` (its author made none), ``withdrawn`` (nobody
    handed one in) or ``not judged`` (the session ended first)."""
    author: str = ""
    """Outside author's name, else ``generator``, ``anthropic``, …"""
    verdict: Verdict | None = None
    correct: bool = False
    faster: bool = False
    """Whether the intervals that count lie above 1, as far as it was timed. False where it was timed once, and the ends
    of ``speedup`` are more than a factor of six apart: ``doubts`` says so then."""
    win: bool = False
    """Whether they did when it was timed again as a finalist: what the session calls a win."""
    summary: str = ""
    """One sentence: what it is worth, or what is wrong."""
    speedup: Interval | None = None
    """By the judge; on an accelerator on the device."""
    noisy: bool = False
    """Whether ``speedup`` is too noisy to tell: its interval has 1 in it, and its ends are far apart."""
    doubts: str = ""
    """What speaks against it where it was timed once: a background load, a wide interval."""
    against: str = ""
    """Baseline of ``speedup``: the fastest by the judge, unless the session names one."""
    ordinary_speedup: Interval | None = None
    """Of a finalist: in ordinary processes; null on an accelerator."""
    ordinary_against: str = ""
    """Its baseline: the fastest there."""
    call_speedup: Interval | None = None
    """Of a finalist on an accelerator: as a call."""
    call_against: str = ""
    """Its baseline: the fastest there."""
    times_ms: dict[str, float] = {}
    """Median milliseconds by name, from one interleaved run."""
    timed_shapes: int = 1
    """Where there are several, ``times_ms`` are weighted geometric means over them."""
    roofline_fraction: float | None = None
    bottleneck: str = ""
    findings: tuple[Finding, ...] = ()
    """The diagnosis's evidence: counters and what follows from them."""
    advice: tuple[Advice, ...] = ()
    evidence: Evidence | None = None
    """Where it is wrong: shape, element, expected, got."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The compiler's messages."""
    log: str = ""
    """End of the compiler's output, where it failed."""
    kernels: tuple[KernelResources, ...] = ()
    declined: tuple[str, ...] = ()
    """Shapes beside the problem's own that it refused."""
    confirmed: bool = False
    """Whether the numbers are those of the confirmation."""
    rationale: str = ""
    source: str = ""
    """The candidate file; left out of the answer to whoever handed it in."""


class LeaseTerms(Schema, frozen=True, kw_only=True):
    """What the holder of a lease may do, and until when."""

    lease: str
    """``SESSION/NODE/N``: name it with every check, hand-in and release."""
    agent: str
    minutes_left: float
    checks_left: int


class TaskBrief(Schema, frozen=True, kw_only=True):
    """Everything that an author needs to work on a task."""

    task: str
    state: str
    lease: LeaseTerms | None
    """None unless it is held."""
    intent: str
    """``draft``: write one; ``improve``: make the parent faster; ``repair``: make it right."""
    write: str
    """What the file must define."""
    contract: tuple[str, ...]
    """What this problem asks of it, a sentence each: timed shapes and weights, error, gradients, state, ties."""
    notes: tuple[str, ...]
    """What to know besides, a sentence each: that the baselines are not timed yet, that there is a better kernel."""
    languages: tuple[str, ...]
    problem: str
    """Name of the problem."""
    reference: str
    """The problem file, whole."""
    shapes: tuple[ShapeFacts, ...]
    """Inputs and outputs at every checked shape; the first is timed."""
    error_bound: float | None
    """Relative error allowed at the first shape; None where the problem asks for an absolute one."""
    pool: str
    hardware: HardwareFacts
    baselines_ms: dict[str, float]
    """Median milliseconds by name; empty until they are measured."""
    baseline_statuses: tuple[BaselineStatus, ...]
    floor_ms: float | None
    """No implementation is faster on this machine, as far as is known."""
    against: str
    """Baseline that a win counts against."""
    parent: NodeAnswer | None
    """The kernel to start from; a long source is left out, and ``notes`` say where it is."""
    second: NodeAnswer | None
    """A second one, whose ideas are to be joined to the first's; likewise."""
    tried: tuple["Place", ...]
    """Everything that was judged in the session so far, the best first."""
    advice: tuple[Advice, ...]
    """What the planner wants tried, most important first."""
    skills: tuple[str, ...]
    """What earlier sessions on like problems taught, nearest first."""


class CheckAnswer(Schema, frozen=True, kw_only=True):
    """What a check came to. Its inputs judge nobody, and nothing was timed."""

    lease: str
    correct: bool
    verdict: Verdict
    summary: str
    evidence: Evidence | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    kernels: tuple[KernelResources, ...] = ()
    checks_left: int = 0


class HandInAnswer(Schema, frozen=True, kw_only=True):
    """What a hand-in came to."""

    lease: str
    accepted: bool
    reason: str = ""
    """Why it was not accepted, or that it took another task's place; one sentence, else empty."""
    answer: NodeAnswer | None = None
    """``state`` is ``judging`` if the wait was over first: ask for the task again."""
    free: tuple[str, ...] = ()
    """Tasks of the session that can be claimed next, newest first."""


class Release(Schema, frozen=True, kw_only=True):
    """What giving a task back came to."""

    lease: str
    released: bool
    reason: str = ""


class Finish(Schema, frozen=True, kw_only=True):
    """How far a session is on its way to its end, after an author said that nothing more comes."""

    session: str
    state: str
    """``closed``, or ``open`` while files are judged, finalists confirmed, or tasks held."""
    held: tuple[str, ...]
    """Leases that it waits for: until they are handed in, given back or expired."""
    judging: tuple[str, ...]
    """Tasks whose files are being judged: that comes before the end."""
    best: str
    """Once it is closed: node of the best; empty if none is correct."""
    win: bool
    withdrawn: tuple[str, ...]
    """Tasks that nobody handed in, and nobody is to any more."""
    detail: str
    """What it came to, or what it waits for."""


class Place(Schema, frozen=True, kw_only=True):
    """A row of the leaderboard."""

    rank: int
    task: str
    author: str
    verdict: Verdict
    win: bool
    """Whether it was timed again as a finalist, and the intervals that count lie above 1."""
    speedup: Interval | None
    """By the judge; on an accelerator on the device."""
    noisy: bool
    """Whether ``speedup`` is too noisy to tell."""
    doubts: str
    """What speaks against it where it was timed once: a background load, a wide interval; empty if nothing does."""
    ordinary_speedup: Interval | None
    """Of a finalist: in ordinary processes; null on an accelerator."""
    call_speedup: Interval | None
    """Of a finalist on an accelerator: as a call."""
    confirmed: bool
    summary: str


class Leaderboard(Schema, frozen=True, kw_only=True):
    """The candidates of a session, best first, and how the session stands."""

    session: str
    problem: str
    pool: str
    state: str
    """``open`` or ``closed``."""
    detail: str
    """What it came to, once it is closed."""
    best: str
    """Node of the best; empty if none is correct."""
    speedup: Interval | None
    """Once it is closed: the best's, by the judge."""
    ordinary_speedup: Interval | None
    """Once it is closed: the best's in ordinary processes; null on an accelerator."""
    call_speedup: Interval | None
    """Once it is closed, on an accelerator: the best's as a call."""
    numbers: tuple[str, str]
    """What ``speedup`` and the one beside it are called."""
    withdrawn: tuple[str, ...]
    """Tasks that nobody handed in, and nobody is to any more."""
    places: tuple[Place, ...]
    judged: int
    budget: int
