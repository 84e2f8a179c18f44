"""Interleaved timing of ordinary processes: in every round each implementation is timed once, in another order.

A batch is timed from outside, so it is long; what a batch of calls of nothing takes is subtracted from it. Blocking.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from ...schemas import Series
from ..harness.contest import MOST_CALLS, SLOW_NS, WARM_NS, Part, Spread, Spreads
from ..harness.rest import LEAST_NS, Rest
from .process import OrdinaryProcess

BATCH_NS = 25_000_000
LEAST_ROUNDS, MOST_ROUNDS = 4, 8
SECONDS = 0.8
"""No further round is begun in a process of the candidate after so long."""
CALIBRATIONS = 8
MOST_SHARE = 0.1
"""Processor time that a process may use while others are timed, as a share of that time: its threads sleep by then."""

SPREADS: Spreads = (
    (100_000, Spread(process=0.03, run=0.03, beside=0.25)),
    (1_000_000, Spread(process=0.04, run=0.03, beside=0.2)),
    (math.inf, Spread(process=0.1, run=0.03, beside=0.15)),
)
"""As :data:`..harness.contest.SPREADS`, of ordinary processes."""


@dataclass
class Runner:
    """One implementation in its process."""

    name: str
    process: OrdinaryProcess
    copies: int
    seconds: float
    """Limit for one batch."""
    calls: int = 1
    warm: int = 0
    is_calibrated: bool = False
    empty: dict[int, list[int]] = field(default_factory=dict)
    """What batches of so many calls of nothing took, nanoseconds."""
    samples: list[int] = field(default_factory=list)
    others: Rest = field(init=False)
    """What its process does while others are timed."""

    def __post_init__(self) -> None:
        self.others = Rest(self.process.pid)

    def calibrate(self) -> None:
        """Find out how many calls make a batch, and warm up: the first calls are made here.

        Raises:
            Missing: it cannot be timed.
        """
        if self.is_calibrated:
            return
        best = math.inf
        for _ in range(CALIBRATIONS):
            ns = self._batch()
            best = min(best, ns / self.calls)
            if ns >= BATCH_NS and self.calls >= min(self.copies, BATCH_NS / best):
                break
            self.calls = max(1, min(MOST_CALLS, math.ceil(BATCH_NS / best), 10 * self.calls))
        self.warm = 0 if best >= SLOW_NS else max(self.copies, math.ceil(WARM_NS / best))
        self.is_calibrated = True
        self.process.rest()

    def sample(self) -> None:
        """Time one batch, and wait until the process rests.

        Raises:
            Missing: it cannot be timed.
        """
        self.others.end()
        if self.warm:
            self.process.time(self.warm, self.seconds)
        self.samples.append(max(1, round(self._batch() / self.calls)))
        self.process.rest()
        self.others.begin()

    def check_rest(self) -> None:
        """Nobody computes while others are timed.

        Raises:
            Missing: it does.
        """
        if self.others.rested_ns >= LEAST_NS and self.others.used_ns > MOST_SHARE * self.others.rested_ns:
            raise self.process.restless()

    def _batch(self) -> int:
        empty = self.empty.setdefault(self.calls, [])
        if len(empty) < LEAST_ROUNDS:
            empty.append(self.process.time(self.calls, self.seconds, nothing=True))
        return max(1, self.process.time(self.calls, self.seconds) - round(median(empty)))


def hold(baselines: Sequence[Runner], candidate: Runner) -> Part:
    """Time a process of the candidate against the baselines.

    Raises:
        Missing: one of them cannot be timed.
    """
    runners = [*baselines, candidate]
    for runner in runners:
        runner.samples = []
        runner.calibrate()
    began = time.monotonic()
    for turn in range(MOST_ROUNDS):
        if turn >= LEAST_ROUNDS and time.monotonic() - began > SECONDS:
            break
        shift = turn % len(runners)
        for runner in runners[shift:] + runners[:shift]:
            runner.sample()
    candidate.check_rest()
    return Part(tuple(Series(name=one.name, samples_ns=tuple(one.samples), calls=one.calls) for one in runners))
