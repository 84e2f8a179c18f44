"""How much time a candidate is given: what would change nothing is not timed."""

import math
import time
from dataclasses import dataclass

import pytest

from kernelswarm.hardware.harness.messages.timing import Time, Timed
from kernelswarm.hardware.harness.timing import interleaved
from kernelswarm.hardware.harness.timing.effort import EARLY_SECONDS, SECONDS, Effort
from kernelswarm.hardware.harness.timing.interleaved import CANDIDATE, Implementation
from kernelswarm.hardware.ordinary import rounds
from kernelswarm.schemas import Interval, Timing

USUAL = 4


def timing(low: float, median: float, high: float) -> Timing:
    interval = Interval(low=low, median=median, high=high)
    return Timing(series=(), speedup={"eager": interval}, best="eager", median_ms={})


UNDECIDED = timing(0.9, 1.1, 1.35)


@pytest.mark.parametrize(
    ("effort", "processes", "seconds", "shown", "enough"),
    [
        (Effort(), 0, 0.0, UNDECIDED, False),
        (Effort(), USUAL, 1.0, UNDECIDED, True),
        (Effort(processes=16), USUAL, 1.0, UNDECIDED, False),
        (Effort(processes=16), USUAL, SECONDS + 1, UNDECIDED, True),
        (Effort(processes=16), USUAL - 1, SECONDS + 1, UNDECIDED, False),
        (Effort(), 2, EARLY_SECONDS + 1, UNDECIDED, False),
        (Effort(), 2, EARLY_SECONDS + 1, timing(0.5, 0.7, 0.97), True),
        (Effort(), 2, EARLY_SECONDS + 1, timing(1.5, 2.0, 2.7), True),
        (Effort(), 2, EARLY_SECONDS + 1, timing(1.05, 1.3, 1.6), False),
        (Effort(), 2, 1.0, timing(1.5, 2.0, 2.7), False),
        (Effort(), 1, EARLY_SECONDS + 1, timing(0.5, 0.7, 0.97), False),
        (Effort(until=0.0), 1, 1.0, UNDECIDED, True),
        (Effort(until=0.0), 0, 1.0, UNDECIDED, False),
    ],
)
def test_when_it_is_enough(effort: Effort, processes: int, seconds: float, shown: Timing, enough: bool) -> None:
    assert effort.is_enough(processes, USUAL, seconds, lambda: shown) is enough


def test_the_baseline_that_counts_decides() -> None:
    wins, loses = Interval(low=1.5, median=2.0, high=2.7), Interval(low=0.9, median=1.1, high=1.35)
    both = Timing(series=(), speedup={"eager": wins, "compile": loses}, best="compile", median_ms={})
    seconds = EARLY_SECONDS + 1
    assert Effort(against="eager").is_enough(2, USUAL, seconds, lambda: both)
    assert not Effort().is_enough(2, USUAL, seconds, lambda: both)


@dataclass
class Clock:
    """Time passes only while calls are made."""

    now: float = 0.0
    calls: int = 0

    def make(self, calls: int, seconds: float) -> int:
        self.calls += calls
        self.now += calls * seconds
        return round(calls * seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


@pytest.mark.parametrize(("call_s", "least"), [(0.3, interleaved.SLOW_ROUNDS), (0.02, 4)])
async def test_slow_calls_are_timed_in_three_rounds(clock: Clock, call_s: float, least: int) -> None:
    async def ask(command: Time) -> Timed:
        clock.make(command.warm, call_s)
        ns = clock.make(command.calls, call_s)
        return Timed(ns=ns, whole_ns=ns, kept=-1)

    timed = [Implementation(name=name, ask=ask) for name in ("eager", "compile", CANDIDATE)]
    part = await interleaved.hold(timed, interleaved.THOROUGH)
    assert len(part.samples(CANDIDATE)) == least


@pytest.mark.parametrize("is_cold", [True, False])
async def test_who_handed_memory_back_fetches_it_before_what_counts(is_cold: bool) -> None:
    made: list[int] = []

    async def ask(command: Time) -> Timed:
        made.append(command.calls)
        return Timed(ns=10**7 * command.calls * (1 + (len(made) == 1)), whole_ns=10**7, kept=-1)

    eager = Implementation(name="eager", ask=ask, is_calibrated=True, is_cold=is_cold)
    await eager.calibrate()
    await eager.sample()
    assert (made, eager.samples) == (([1, 1], [10**7]) if is_cold else ([1], [2 * 10**7]))


@dataclass
class Calls:
    """The calls of an ordinary process, without one."""

    clock: Clock
    call_s: float
    pid: int = 0

    def time(self, calls: int, seconds: float, *, warm: int = 0, nothing: bool = False) -> int:
        if nothing:
            return 0
        self.clock.make(warm, self.call_s)
        return self.clock.make(calls, self.call_s)

    def wait_until_idle(self) -> None:
        """It is."""


@pytest.mark.parametrize(("call_s", "least", "calls"), [(0.3, rounds.SLOW_ROUNDS, 2), (0.09, rounds.LEAST_ROUNDS, 4)])
def test_before_a_slow_call_of_an_ordinary_process_one_warms_up(
    clock: Clock, call_s: float, least: int, calls: int
) -> None:
    runners = [rounds.Runner(name, Calls(clock, call_s), 3, math.inf) for name in ("eager", CANDIDATE)]  # type: ignore[arg-type]
    part = rounds.hold(runners[:1], runners[1])
    calibrations = 4
    assert len(part.samples(CANDIDATE)) == least
    assert clock.calls == calibrations + least * 2 * calls


@dataclass
class HeardLate(Calls):
    """That some of its batches have begun is heard as they end."""

    late: tuple[int, ...] = ()
    batches: int = 0

    def time(self, calls: int, seconds: float, *, warm: int = 0, nothing: bool = False) -> int:
        ns = super().time(calls, seconds, warm=warm, nothing=nothing)
        self.batches += not nothing
        return 2_000 if self.batches in self.late and not nothing else ns


@pytest.mark.parametrize("late", [(2,), (8,), (8, 9), (16,)])
@pytest.mark.parametrize("call_s", [1e-6, 1e-3, 0.02])
def test_a_batch_that_was_heard_late_makes_no_endless_one(clock: Clock, call_s: float, late: tuple[int, ...]) -> None:
    candidate = HeardLate(clock, call_s, late=late)
    runners = [
        rounds.Runner("eager", Calls(clock, call_s), 3, math.inf),
        rounds.Runner(CANDIDATE, candidate, 3, math.inf),
    ]  # type: ignore[arg-type]
    rounds.hold(runners[:1], runners[1])
    longest = max(10 * rounds.BATCH_NS, 10 * 3 * call_s * 1e9)
    assert max(runners[1].warm, runners[1].calls) * call_s * 1e9 <= longest
