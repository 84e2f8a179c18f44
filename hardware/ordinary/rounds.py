"""Interleaved timing of ordinary processes: in every round each implementation is timed once, in another order.

A batch is timed from outside, so it is long; what a batch of calls of nothing takes is subtracted from it. Blocking.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from ...schemas import Series
from ..harness.timing.idle_check import LEAST_NS, IdleCheck
from ..harness.timing.interleaved import MOST_CALLS, Part, Spread, Spreads
from .process import OrdinaryProcess

BATCH_NS = 25_000_000
WARM_NS = 20_000_000
"""Calls are made untimed for so long directly before each batch. The system may wake the threads of a pool on one core,
where they wait for one another for some ten milliseconds; in a program that goes on computing they have found theirs.
"""
LEAST_ROUNDS, MOST_ROUNDS = 4, 8
SECONDS = 0.8
"""No further round is begun in a process of the candidate after so long."""
SLOW_ROUNDS = 3
"""The least number of rounds where one takes longer: what differs from process to process is wider than what differs
within one."""
SLOW_NS = 5 * WARM_NS
"""Before a batch of calls that take so long each, one call warms up, and not one on every copy of the inputs."""
CALIBRATIONS = 8
MUCH = 4
"""So many times as long is no usual difference of two batches."""
MOST_SHARE = 0.1
"""Processor time that a process may use while others are timed, as a share of that time: its threads sleep by then."""

SPREADS: Spreads = (
    (100_000, Spread(process=0.03, run=0.03, beside=0.25)),
    (1_000_000, Spread(process=0.04, run=0.03, beside=0.2)),
    (math.inf, Spread(process=0.1, run=0.03, beside=0.15)),
)
"""As :data:`..harness.timing.interleaved.SPREADS`, of ordinary processes."""
DEVICE_SPREADS: Spreads = ((math.inf, Spread(process=0.2, run=0.03)),)
"""The same on an accelerator, whatever a call takes: short ones are the host's work of launching them, 15 to 100 us,
which differs by 20 % from process to process and not from run to run (``benchmarks/results/ordinary_h200.json``)."""


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
    others: IdleCheck = field(init=False)
    """What its process does while others are timed."""

    def __post_init__(self) -> None:
        self.others = IdleCheck(self.process.pid)

    def calibrate(self) -> None:
        """Find out how many calls make a batch, and warm up: the first calls are made here.

        Raises:
            Missing: it cannot be timed.
        """
        if self.is_calibrated:
            return
        for _ in range(CALIBRATIONS):
            elapsed, ns = self._usual_batch()
            if elapsed >= (BATCH_NS if self.calls >= self.copies else 2 * BATCH_NS):
                break
            self._grow(elapsed)
        # A call that takes so long has displaced what others left before it ends, and has found its threads.
        # On a busy machine it is heard late that a batch has begun: it then seems to take microseconds.
        warm = min(MOST_CALLS, self._calls_in(WARM_NS, max(ns, 1)))
        self.warm = 1 if ns >= SLOW_NS else max(self.copies, warm)
        self.is_calibrated = True
        self.process.wait_until_idle()

    def sample(self) -> None:
        """Time one batch, and wait until the process rests.

        Raises:
            Missing: it cannot be timed.
        """
        self.others.end()
        elapsed, ns = self._batch(self.warm)
        if elapsed < BATCH_NS / 2:
            # Too short for so many calls, or it was heard late that it had begun: then the next one is longer.
            elapsed, ns = max((elapsed, ns), self._batch(self.warm))
        self.samples.append(max(1, round(ns / self.calls)))
        usual = max(elapsed, round(median(self.samples) * self.calls))
        if usual < BATCH_NS / 2:
            self._grow(usual)
        self.process.wait_until_idle()
        self.others.begin()

    def check_idle(self) -> None:
        """Nobody computes while others are timed.

        Raises:
            Missing: it does.
        """
        if self.others.rested_ns >= LEAST_NS and self.others.used_ns > MOST_SHARE * self.others.rested_ns:
            raise self.process.restless()

    def _usual_batch(self) -> tuple[int, int]:
        """The faster of two, since a disturbance would make batches of single calls; of two that differ by much, one of
        which may have begun before that was heard, and of a third, the one in the middle."""
        fast, slow = sorted((self._batch(), self._batch()))
        return fast if slow[0] < MUCH * fast[0] else sorted((fast, slow, self._batch()))[1]

    def _batch(self, warm: int = 0) -> tuple[int, int]:
        """Nanoseconds that a batch took after ``warm`` calls, and without what as many calls of nothing take."""
        empty = self.empty.setdefault(self.calls, [])
        if len(empty) < LEAST_ROUNDS:
            empty.append(self.process.time(self.calls, self.seconds, nothing=True))
        elapsed = self.process.time(self.calls, self.seconds, warm=warm)
        # A disturbance of an empty batch must not leave nothing of a full one.
        return elapsed, elapsed - min(round(median(empty)), elapsed // 2)

    def _grow(self, elapsed: int) -> None:
        """The next batches are longer: this one took ``elapsed``."""
        self.calls = min(MOST_CALLS, 10 * self.calls, max(self.calls + 1, self._calls_in(BATCH_NS, elapsed)))

    def _calls_in(self, target_ns: int, ns: int) -> int:
        """How many calls take ``target_ns`` nanoseconds, if a batch takes ``ns``."""
        return math.ceil(target_ns * self.calls / ns)


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
        seconds = time.monotonic() - began
        if turn >= (SLOW_ROUNDS if seconds > turn * SECONDS else LEAST_ROUNDS) and seconds > SECONDS:
            break
        shift = turn % len(runners)
        for runner in runners[shift:] + runners[:shift]:
            runner.sample()
    candidate.check_idle()
    return Part(
        tuple(
            Series(name=timed_runner.name, samples_ns=tuple(timed_runner.samples), calls=timed_runner.calls)
            for timed_runner in runners
        )
    )
