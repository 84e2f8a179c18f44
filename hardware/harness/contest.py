"""Interleaved timing: in every round each implementation is timed once, in another order. The supervisor's side."""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median

from ...schemas import Interval, Series, Timing
from .messages import Time, Timed
from .statistics import in_a_new_run, relative_width, speedup

BATCH_NS = 2_000_000
"""A sample is the mean over a batch at least so long: the clock's and the loop's own cost vanish in it."""
WARM_NS = 500_000
"""After another implementation ran, calls are made untimed for so long, and one on each copy of the inputs at least.

The baselines share a process and its memory: without a call on every copy they would find in a large last-level cache
what the one before them left there, and the candidate would not.
"""
SLOW_NS = 8_000_000
"""Calls this long are not warmed up: what another implementation left behind costs them nothing that counts."""
MOST_CALLS = 20_000
MOST_GROWTH = 20.0
CALIBRATIONS = 5
LONGEST_CALIBRATION_NS = 50_000_000
CANDIDATE = "candidate"

SPREADS = ((100_000, 0.02, 0.25), (1_000_000, 0.015, 0.2), (math.inf, 0.0075, 0.15))
"""How much the ratio of two implementations differs from run to run beyond what samples show, as a standard deviation:
by the time of a call in nanoseconds up to which it holds, on a machine that is ours alone, and what is added if others
take all of the processor meanwhile. ``benchmarks/retiming.py`` measures it with copies of eager (docs/judge.md); the
shorter a call, the more it is where memory and code happen to lie, and who is woken first."""

Ask = Callable[[Time], Awaitable[Timed]]


@dataclass(frozen=True)
class Plan:
    """When to stop."""

    least_rounds: int
    most_rounds: int
    seconds: float
    """No further round is begun after so long."""
    width: float
    """Stop when the interval against the best baseline is narrower than this share of its median."""


QUICK = Plan(least_rounds=5, most_rounds=40, seconds=0.3, width=0.03)
THOROUGH = Plan(least_rounds=15, most_rounds=150, seconds=3.0, width=0.01)
"""Longer would not tell more: what differs from run to run (:data:`SPREADS`) is wider than what is left then."""


@dataclass
class Contestant:
    """One implementation in the contest."""

    name: str
    ask: Ask
    copies: int = 1
    """Copies of the inputs that its calls rotate through."""
    calls: int = 1
    warm: int = 1
    is_calibrated: bool = False
    samples: list[int] = field(default_factory=list)

    async def calibrate(self) -> None:
        """Find out how many calls make a batch.

        By the fastest of several tries: one that a disturbance stretched would make batches of single calls, and those
        are then all disturbed. Our own clock ends it early, should the other one lie.
        """
        if self.is_calibrated:
            return
        best = math.inf
        for _ in range(CALIBRATIONS):
            timed, elapsed = await self._time(self.calls, 1)
            best = min(best, max(timed.ns, 1) / self.calls)
            if best >= 2 * BATCH_NS or (elapsed > LONGEST_CALIBRATION_NS and timed.ns < elapsed / 2):
                break
            self.calls = max(1, min(MOST_CALLS, math.ceil(min(BATCH_NS / best, self.calls * MOST_GROWTH))))
        self.warm = 0 if best >= SLOW_NS else max(self.copies, min(self.calls, math.ceil(WARM_NS / best)))
        self.is_calibrated = True

    async def sample(self) -> None:
        """Time one batch; the next one is longer if this one was too short."""
        timed, _ = await self._time(self.calls, self.warm)
        self.samples.append(max(1, round(timed.ns / self.calls)))
        if timed.ns < BATCH_NS / 2 and self.samples[-1] > 1:
            self.calls = min(MOST_CALLS, math.ceil(self.calls * BATCH_NS / timed.ns))

    async def _time(self, calls: int, warm: int) -> tuple[Timed, int]:
        started = time.perf_counter_ns()
        timed = await self.ask(Time(calls=calls, warm=warm, name=self.name))
        return timed, time.perf_counter_ns() - started

    @property
    def series(self) -> Series:
        """Its samples, as they go into the event."""
        return Series(name=self.name, samples_ns=tuple(self.samples), calls=self.calls)

    @property
    def median_ms(self) -> float:
        """Median time of a call, milliseconds."""
        return median(self.samples) / 1e6


async def hold(contestants: list[Contestant], plan: Plan, others: Callable[[], float] = lambda: 0.0) -> Timing:
    """Time ``contestants`` against each other until ``plan`` says stop; one of them is the candidate.

    ``others`` says what share of the processor others took since it was made.
    """
    for contestant in contestants:
        await contestant.calibrate()
    started = time.monotonic()
    for turn in range(plan.most_rounds):
        if turn >= plan.least_rounds and (time.monotonic() - started > plan.seconds or _is_clear(contestants, plan)):
            break
        shift = turn % len(contestants)
        for contestant in contestants[shift:] + contestants[:shift]:
            await contestant.sample()
    return result(contestants, others())


def result(contestants: list[Contestant], others: float = 0.0) -> Timing:
    """What the samples say, others having taken a share ``others`` of the processor."""
    baselines = [contestant for contestant in contestants if contestant.name != CANDIDATE]
    candidate = _candidate(contestants)
    spread = spread_of(median(candidate.samples), others)
    return Timing(
        series=tuple(contestant.series for contestant in contestants),
        speedup={baseline.name: in_a_new_run(_against(baseline, candidate), spread) for baseline in baselines},
        best=min(baselines, key=lambda baseline: baseline.median_ms).name,
        median_ms={contestant.name: contestant.median_ms for contestant in contestants},
        spread=spread,
    )


def spread_of(ns: float, others: float = 0.0) -> float:
    """How much ratios of calls that take ``ns`` differ from run to run: a standard deviation, as a share.

    ``others`` is the share of the processor that others took.
    """
    alone, beside = next((alone, beside) for most, alone, beside in SPREADS if ns <= most)
    return math.hypot(alone, beside * others)


def _candidate(contestants: list[Contestant]) -> Contestant:
    return next(contestant for contestant in contestants if contestant.name == CANDIDATE)


def _is_clear(contestants: list[Contestant], plan: Plan) -> bool:
    """Whether more rounds would say little more: they do not narrow what differs from run to run."""
    candidate = _candidate(contestants)
    best = min((one for one in contestants if one is not candidate), key=lambda one: one.median_ms)
    return relative_width(_against(best, candidate)) < plan.width


def _against(baseline: Contestant, candidate: Contestant) -> Interval:
    return speedup(baseline.samples, candidate.samples)
