"""What was measured of a candidate: verdicts, evidence, times, and how they compare."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec.structs import replace

from .base import Schema
from .device_profile import DeviceProfile


class Verdict(StrEnum):
    """Terminal status of a candidate. Everything but ``correct`` names what is wrong."""

    correct = "correct"
    synthesis_failed = "synthesis_failed"
    """No candidate was made."""
    compile_error = "compile_error"
    """The compiler refused it."""
    load_error = "load_error"
    """It does not import, or lacks ``kernel`` / ``ModelNew``."""
    wrong_type = "wrong_type"
    """An output is not a plain tensor of the reference's dtype, or the number of outputs differs."""
    wrong_shape = "wrong_shape"
    wrong_numbers = "wrong_numbers"
    lower_precision = "lower_precision"
    """Wrong numbers whose errors are those of computing in a lower precision than asked; the evidence names it."""
    incomplete_output = "incomplete_output"
    """Part of an output was never written (the poison shows)."""
    input_mutated = "input_mutated"
    wrong_state = "wrong_state"
    """After a call the module's state (buffers, parameters, counters) or an input that the reference writes is not what
    the reference leaves."""
    wrong_gradients = "wrong_gradients"
    """Where gradients are on, it gives other gradients than the reference, or numbers without a graph."""
    not_deterministic = "not_deterministic"
    """Two runs on the same input differ by more than the error bound."""
    stale_output = "stale_output"
    """An output changed after it was handed over, or shares memory with another call's."""
    hidden_work = "hidden_work"
    """Work that the clock did not see: faster than the machine can be, or done after the call had returned."""
    tampering = "tampering"
    """Its own clock disagrees with the supervisor's, or the harness was touched."""
    runtime_error = "runtime_error"
    """It raised."""
    timeout = "timeout"
    crash = "crash"
    """Its process died."""
    out_of_memory = "out_of_memory"
    harness_error = "harness_error"
    """Not the candidate's fault: the step was given up after several tries."""


class Evidence(Schema, frozen=True, kw_only=True):
    """Why a verdict fell: enough to see it with one's own eyes."""

    message: str
    """One sentence for people."""

    shape: str = ""
    """Name of the problem's shape it happened on; the sizes of one that the judge made up (``rows=35, cols=253``)."""

    seed: int | None = None
    """Seed of the inputs."""

    inputs: str = ""
    """Kind of the inputs, where they are not the problem's own at a shape of its own: ``shifted``, ``strided``,
    ``held_out``, … (docs/judge.md)."""

    output: int | None = None
    """Which output, from 0."""

    element: tuple[int, ...] = ()
    """Index of the worst element."""

    expected: str = ""
    """Value there by the oracle, as text (it may not be finite)."""

    got: str = ""
    """Value there by the candidate, as text."""

    log: str = ""
    """Traceback, signal, or the end of its output."""


class CaseResult(Schema, frozen=True, kw_only=True):
    """One input set on which a candidate was compared with the oracle."""

    shape: str
    """Name of the problem's shape, or the sizes of one that the judge made up."""

    seed: int
    """Seed of the inputs, private until now."""

    error: float
    """Candidate's error: max over elements of |got - oracle| / (|oracle| + rms(oracle)); 0 for equal integers."""

    reference_error: float
    """The reference's own error in its own precision, same measure."""

    bound: float
    """What was allowed."""

    inputs: str = "normal"
    """Kind of the inputs: ``normal`` as the problem draws them, else what was made of these (docs/judge.md)."""

    published: bool | None = None
    """Whether it is right by the tolerance that the problem's source publishes, which decides nothing; None where there
    is none, and in older events."""


class Interval(Schema, frozen=True, kw_only=True):
    """A ratio, and where another run of the same would find it, 95 of 100 times."""

    median: float
    low: float
    high: float

    @property
    def is_win(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low > 1.0


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

    run_spread: float = 0.0
    """The part of :attr:`spread` that all processes of this run have in common. 0 in older events."""

    shapes: tuple["ShapeTiming", ...] = ()
    """The run at every timed shape, where there are several; else empty."""

    absent: dict[str, str] = {}
    """Baselines of the pool that this run was to have and had not, by name, and why; a clause. Empty in older
    events, which had all that could be compiled."""

    def baseline(self, against: str) -> str:
        """Name of the baseline that a win counts against: the one that ``against`` names, if it was timed, else the
        best."""
        return against if against in self.speedup else self.best

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


class Counters(Schema, frozen=True, kw_only=True):
    """Hardware counters over the timed calls, where the machine permits them."""

    source: str
    """``perf`` or another profiler's name."""

    values: dict[str, float]
    """Counts per call: ``instructions``, ``cycles``, ``cache_misses``, …"""


class Roofline(Schema, frozen=True, kw_only=True):
    """How close to the machine's limit; over several shapes the weighted geometric means."""

    floor_ms: float
    """max(bytes / copy bandwidth, operations / peak): no implementation is faster."""

    fraction: float
    """floor / candidate's median; 1 is the machine's limit."""

    limit: str
    """``memory`` or ``compute``: which term the floor comes from."""


class Artifact(Schema, frozen=True, kw_only=True):
    """Something large, stored by its content."""

    sha256: str
    size: int
    """Bytes."""
    media_type: str
    name: str = ""
    """File name a user would see."""


class Diagnostic(Schema, frozen=True, kw_only=True):
    """One message of a compiler."""

    severity: str
    """``error`` or ``warning``."""

    message: str
    line: int = 0
    """Line in the native source, from 1; 0 if unknown."""

    column: int = 0


class KernelResources(Schema, frozen=True, kw_only=True):
    """What one compiled kernel of an accelerator takes."""

    name: str

    registers: int
    """Of one thread."""

    spill_bytes: int
    """Local memory of one thread, bytes: registers that did not fit, and arrays indexed at run time."""

    shared_bytes: int
    """Shared memory of one block, bytes; what a launch of CUDA C++ asks for beside it is not in it."""

    warps: int = 0
    """Warps of a block; 0 where the launch decides."""

    stages: int = 0
    """Depth of the software pipeline; 0 where there is none."""


class CompileReport(Schema, frozen=True, kw_only=True):
    """What a language's toolchain made of a candidate."""

    ok: bool
    language: str
    compiler: str
    """Name and version; empty if nothing had to be compiled."""
    flags: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    """End of the compiler's output."""
    seconds: float = 0.0
    cached: bool = False
    """Whether the artifact was there already."""
    kernels: tuple[KernelResources, ...] = ()
    """Resources of each kernel of an accelerator, in the order of the candidate's launches."""
    isolation: str = ""
    """Layers around the compiler, as ``process+netns+pidns+toolroot``; empty if nothing had to be compiled."""

    @property
    def is_late(self) -> bool:
        """Whether kernels may still have to be compiled in the process that calls them, which then starts programs."""
        return self.language == "triton" and not self.names(".triton")

    def names(self, suffix: str) -> tuple[str, ...]:
        """Names of the artifacts that end with ``suffix``."""
        return tuple(artifact.name for artifact in self.artifacts if artifact.name.endswith(suffix))


FROM_SEED = "seed"
"""How a module took its weights that takes nobody's."""

CONTIGUOUS, FINITE = "contiguous", "finite"
"""What inputs a candidate may be limited to."""
_BEYOND = {
    CONTIGUOUS: "the finished file leaves others to the reference",
    FINITE: "it answers otherwise to NaN and infinities, in the finished file as well",
}


def limits_text(limits: Iterable[str]) -> str:
    """Where alone a candidate is right, and what becomes of other inputs."""
    return "; ".join(
        f"right only for {limit} inputs: {_BEYOND.get(limit, 'it is wrong on others')}" for limit in limits
    )


class VerifyReport(Schema, frozen=True, kw_only=True):
    """What the verifier's harness found."""

    verdict: Verdict
    isolation: str
    """Level in force, as ``process+rlimits+netns``."""
    cases: tuple[CaseResult, ...] = ()
    evidence: Evidence | None = None
    seconds: float = 0.0
    declined: tuple[str, ...] = ()
    """What it raised at made-up shapes, each time with the shape: refusing them is no fault."""
    gradients: str = ""
    """Who differentiates it: ``own`` (its gradients were checked), ``reference`` (it refuses or gives no graph, so the
    drop-in recomputes the reference), or empty where the problem has no gradients or the event is older."""
    weights: str = ""
    """How a module took the reference's weights: ``names``; ``order`` (other names, the same shapes in the same order);
    ``seed`` (neither: it has what it made itself under the reference's seed). Empty for functions and in older
    events."""
    renamed: dict[str, str] = {}
    """With ``order``: the module's names by the reference's, where they differ."""
    limits: tuple[str, ...] = ()
    """On which inputs alone it is right, of :data:`CONTIGUOUS` and :data:`FINITE` (:func:`limits_text`). Only of
    problems that name one call; empty in older events."""


class ContractProperty(Schema, frozen=True, kw_only=True):
    """Whether a finished file behaves like its reference in one way (docs/dropin.md)."""

    name: str
    ok: bool = True
    """Whether it does, or nothing is asked of it."""
    applies: bool = True
    """Whether the reference does it itself."""
    is_essential: bool = False
    """Whether a file without it is no win: numbers, state and gradients."""
    detail: str = ""
    """What differs, or why nothing is asked; one sentence."""


class ProfileReport(Schema, frozen=True, kw_only=True):
    """What the profiler's harness measured. ``timing`` is None unless the verdict is correct."""

    verdict: Verdict
    isolation: str
    timing: Timing | None = None
    ordinary: Timing | None = None
    """The finished drop-in against the baselines in ordinary processes; of finalists and evaluations only. On an
    accelerator that is the call, host overhead included, and :attr:`timing` is the device. Older events have none."""
    ordinary_missing: str = ""
    """Why ``ordinary`` could not be measured although it was wanted; one sentence."""
    contract: tuple[ContractProperty, ...] = ()
    """Whether the finished drop-in behaves like its reference; of what is faster in ordinary processes, as well."""
    roofline: Roofline | None = None
    counters: Counters | None = None
    device: DeviceProfile | None = None
    """What the accelerator's profilers saw."""
    evidence: Evidence | None = None
    seconds: float = 0.0
    """That it took, without waiting for others to leave the hardware."""

    def at_first_shape(self) -> "ProfileReport":
        """The same for the first timed shape alone: counters and profilers speak of that one."""
        if self.timing is None or not self.timing.shapes:
            return self
        first = self.timing.shapes[0]
        return replace(self, timing=first.timing, roofline=first.roofline)


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
