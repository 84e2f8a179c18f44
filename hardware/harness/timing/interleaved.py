"""Interleaved timing: in every round each implementation is timed once, in another order. The supervisor's side."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from ....schemas import Interval, Series, Timing
from ..messages.timing import Time, Timed
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
SLOW_ROUNDS = 3
"""The least number of rounds where one takes longer than all were to: processes differ by more than rounds do then."""
LONGEST_CALIBRATION_NS = 50_000_000
CANDIDATE = "candidate"


@dataclass(frozen=True)
class Spread:
    """How much the ratio of two implementations differs beyond what samples show: standard deviations, as shares."""

    process: float
    """From one process of the candidate to the next."""
    run: float
    """From run to run, however many processes of the candidate a run times."""
    beside: float = 0.0
    """Added to ``run`` if others take all of the processor meanwhile."""


Spreads = tuple[tuple[float, Spread], ...]

SPREADS: Spreads = (
    (100_000, Spread(process=0.02, run=0.02, beside=0.25)),
    (1_000_000, Spread(process=0.03, run=0.02, beside=0.2)),
    (math.inf, Spread(process=0.1, run=0.03, beside=0.15)),
)
"""On a processor, by the time of a call in nanoseconds up to which it holds. ``benchmarks/retiming.py`` measures it
(docs/judge/intervals.md): the shorter a call, the more it is who is woken first; the longer, which cores its threads
got."""
DEVICE_SPREADS: Spreads = (
    (100_000, Spread(process=0.01, run=0.02)),
    (1_000_000, Spread(process=0.01, run=0.015)),
    (math.inf, Spread(process=0.01, run=0.0075)),
)
"""The same on an accelerator, which is timed by its own clock and is nobody else's meanwhile."""

GRAPH_SPREADS: Spreads = ((math.inf, Spread(process=0.005, run=0.0075)),)
"""The same of calls that the device replays."""
GRAPH, EVENTS = "graph", "events"
"""What the time of a call on an accelerator is (:attr:`.Timing.measure`)."""

STEP_NOISE_NS = 500
"""So much may what the harness takes for a call that is made one by one be measured wrong."""
ALONE_ALLOWANCE = 1.03
"""A call among many may be so much faster, beside the baseline's, than calls that are made one by one."""

Ask = Callable[[Time], Awaitable[Timed]]


class Spent(Exception):
    """No input sets are left that the candidate has not seen."""


@dataclass(frozen=True)
class Plan:
    """In how many processes a candidate is timed, and when to stop in each."""

    processes: int
    least_rounds: int
    most_rounds: int
    seconds: float
    """No further round is begun after so long."""
    width: float
    """Stop when the interval against the best baseline is narrower than this share of its median."""
    is_thorough: bool = False
    """Whether, where calls are timed from outside, they are also timed one by one, and every batch is checked, however
    large its outputs are."""


QUICK = Plan(processes=1, least_rounds=5, most_rounds=40, seconds=0.3, width=0.03)
THOROUGH = Plan(processes=4, least_rounds=4, most_rounds=40, seconds=0.5, width=0.01, is_thorough=True)
"""Longer in one process would not tell more: what differs from process to process is wider than what is left then."""


@dataclass
class Implementation:
    """One implementation in the interleaved benchmark."""

    name: str
    ask: Ask
    copies: int = 1
    """Copies of the inputs that its calls rotate through."""
    calls: int = 1
    warm: int = 1
    is_calibrated: bool = False
    is_cold: bool = False
    """Whether its process handed memory back since its last batch (:meth:`.BaselineProcess.make_room`)."""
    batch_ns: int = BATCH_NS
    """A batch is at least so long, if :attr:`most_calls` take so long."""
    most_calls: int = MOST_CALLS
    samples: list[int] = field(default_factory=list)

    async def calibrate(self) -> None:
        """Find out how many calls make a batch.

        By the fastest of several tries: one that a disturbance stretched would make batches of single calls, and those
        are then all disturbed. Our own clock ends it early, should the other one be wrong.
        """
        if self.is_calibrated:
            if self.is_cold:
                # It fetches its memory again, which took an H200 twice as long as the calls of this batch.
                await self._time(self.calls, self.warm)
            return
        best = math.inf
        for _ in range(CALIBRATIONS):
            timed, elapsed = await self._time(self.calls, 1)
            best = min(best, max(timed.ns, 1) / self.calls)
            if best >= 2 * self.batch_ns or (elapsed > LONGEST_CALIBRATION_NS and timed.ns < elapsed / 2):
                break
            self.calls = max(1, min(self.most_calls, math.ceil(min(self.batch_ns / best, self.calls * MOST_GROWTH))))
        self.warm = 0 if best >= SLOW_NS else max(self.copies, min(self.calls, math.ceil(WARM_NS / best)))
        self.is_calibrated = True

    async def sample(self) -> None:
        """Time one batch; the next one is longer if this one was too short."""
        timed, _ = await self._time(self.calls, self.warm)
        self.samples.append(max(1, round(timed.ns / self.calls)))
        if timed.ns < self.batch_ns / 2 and self.samples[-1] > 1:
            self.calls = min(self.most_calls, math.ceil(self.calls * self.batch_ns / timed.ns))

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


@dataclass(frozen=True)
class Part:
    """What one process of the candidate showed."""

    series: tuple[Series, ...]
    """Baselines and candidate, as many samples of each."""
    others: float = 0.0
    """Share of the processor that others took meanwhile."""
    measure: str = ""
    """As :attr:`.Timing.measure`."""
    warm_ns: dict[str, float] = field(default_factory=dict)
    """Time of a call by name where the cache holds all that fits, if that was measured."""
    alone_ns: dict[str, float] = field(default_factory=dict)
    """Time of a call by name where the inputs of each come after the answer of the one before, if that was measured."""

    def samples(self, name: str) -> tuple[int, ...]:
        """Those of one implementation, nanoseconds."""
        return next(series.samples_ns for series in self.series if series.name == name)


async def hold(implementations: list[Implementation], plan: Plan, others: Callable[[], float] = lambda: 0.0) -> Part:
    """Time ``implementations`` against each other until ``plan`` says stop; one of them is a process of the candidate.

    ``others`` says what share of the processor others took since it was made.
    """
    for implementation in implementations:
        await implementation.calibrate()
    started = time.monotonic()
    for turn in range(plan.most_rounds):
        seconds = time.monotonic() - started
        least = min(SLOW_ROUNDS, plan.least_rounds) if seconds > turn * plan.seconds else plan.least_rounds
        if turn >= least and (seconds > plan.seconds or _is_clear(implementations, plan)):
            break
        shift = turn % len(implementations)
        try:
            for implementation in implementations[shift:] + implementations[:shift]:
                await implementation.sample()
        except Spent:
            break
    rounds = min(len(implementation.samples) for implementation in implementations)
    for implementation in implementations:
        del implementation.samples[rounds:]
    return Part(tuple(implementation.series for implementation in implementations), others())


def result(parts: Sequence[Part], *, on_processor: bool = True, table: Spreads | None = None) -> Timing:
    """What the processes of one candidate say together.

    A time is the geometric mean over the processes of their medians: ratios of such times are the speedups. ``table``
    says how much ratios differ where that is not what is usual in the harness.
    """
    names = [series.name for series in parts[0].series]
    times = {name: _mean([median(part.samples(name)) for part in parts]) for name in names}
    baselines = [name for name in names if name != CANDIDATE]
    table = table or _table(on_processor, parts[0].measure)
    spread = spread_of(times[CANDIDATE], fmean(part.others for part in parts), table)
    alone = [part.alone_ns for part in parts if part.alone_ns]
    return Timing(
        series=tuple(_joined(name, parts) for name in names),
        rounds=tuple(len(part.samples(CANDIDATE)) for part in parts),
        speedup={
            name: _lowered(_expected(name, parts, spread), ALONE_ALLOWANCE * one_by_one(name, parts))
            for name in baselines
        },
        best=min(baselines, key=lambda name: times[name]),
        median_ms={name: ns / 1e6 for name, ns in times.items()},
        spread=math.hypot(spread.process / math.sqrt(len(parts)), spread.run),
        run_spread=spread.run,
        background_load=fmean(part.others for part in parts),
        measure=parts[0].measure,
        warm_ms={name: _mean([part.warm_ns[name] for part in parts]) / 1e6 for name in parts[0].warm_ns},
        alone_ms={name: median(ns[name] for ns in alone) / 1e6 for name in names if alone},
    )


def _mean(values: Sequence[float]) -> float:
    """Geometric."""
    return math.exp(fmean(map(math.log, values)))


def _table(on_processor: bool, measure: str) -> Spreads:
    if on_processor:
        return SPREADS
    return GRAPH_SPREADS if measure == GRAPH else DEVICE_SPREADS


def spread_of(ns: float, others: float = 0.0, table: Spreads = SPREADS) -> Spread:
    """How much ratios of calls that take ``ns`` differ; ``others`` is the share of the processor that others took."""
    spread = next(spread for most, spread in table if ns <= most)
    return Spread(process=spread.process, run=math.hypot(spread.run, spread.beside * others))


def _joined(name: str, parts: Sequence[Part]) -> Series:
    calls = next(series.calls for series in parts[-1].series if series.name == name)
    return Series(name=name, samples_ns=tuple(ns for part in parts for ns in part.samples(name)), calls=calls)


def _expected(baseline: str, parts: Sequence[Part], spread: Spread) -> Interval:
    speedups = [speedup(part.samples(baseline), part.samples(CANDIDATE)) for part in parts]
    return in_a_new_run(speedups, spread.process, spread.run)


def one_by_one(baseline: str, parts: Sequence[Part]) -> float:
    """The speedup of calls whose inputs come one after the other, the median of the processes; infinite if unknown.

    What the harness takes may be measured wrong by :data:`STEP_NOISE_NS`. No call is taken as faster for that than
    both what it took and the fastest among many.
    """
    ratios = [
        part.alone_ns[baseline] / _least_alone(part) for part in parts if {baseline, CANDIDATE} <= part.alone_ns.keys()
    ]
    return median(ratios) if ratios else math.inf


def _least_alone(part: Part) -> float:
    alone = part.alone_ns[CANDIDATE]
    return max(alone - STEP_NOISE_NS, min(alone, *part.samples(CANDIDATE)))


def _lowered(speedup: Interval, most: float) -> Interval:
    """``speedup``, but no more than ``most``: calls that are computed together save nothing where they are made one by
    one."""
    factor = min(1.0, most / speedup.median)
    return Interval(median=speedup.median * factor, low=speedup.low * factor, high=speedup.high * factor)


def _is_clear(implementations: list[Implementation], plan: Plan) -> bool:
    """Whether more rounds would say little more: they do not narrow what differs from process to process."""
    candidate = next(implementation for implementation in implementations if implementation.name == CANDIDATE)
    best = min(
        (implementation for implementation in implementations if implementation is not candidate),
        key=lambda implementation: implementation.median_ms,
    )
    return relative_width(speedup(best.samples, candidate.samples)) < plan.width
