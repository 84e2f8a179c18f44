"""Who reports a wrong time is told from who waits for a core, by figures as two busy cores show them."""

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kernelswarm.hardware.harness.judgement import Judged
from kernelswarm.hardware.harness.messages.timing import Time, Timed
from kernelswarm.hardware.harness.self_timed import SelfTimed
from kernelswarm.hardware.harness.timing.clocks import (
    CHECK_NS,
    CLOCK_TRIES,
    MOST_FLUSHES,
    Batch,
    ClockCrossCheck,
    ClockResult,
    CrossCheckTally,
    work_ns,
)
from kernelswarm.hardware.machine.background_load import BackgroundLoad

BUSY = "while True: pass"


def batch(calls: int, shown: float, ours: float, work: float | None, warm: int = 0) -> Batch:
    """So many calls; nanoseconds of one by its clock and by ours, and of processor time."""
    all_calls = calls + warm
    timed = Timed(ns=round(shown * calls), whole_ns=round(shown * all_calls), kept=0)
    return Batch(calls, warm, timed, round(ours * all_calls), None if work is None else round(work * all_calls))


def comparison(checked: Batch, short: Batch, counted: float, others: float = 0.0) -> ClockCrossCheck:
    return ClockCrossCheck(checked, [short] * 5, counted, others=others)


QUIET = comparison(batch(2000, 14_700, 14_800, 14_900), batch(133, 14_400, 17_000, 15_700, 33), counted=15_000)
WAITED = comparison(batch(2000, 58_000, 58_100, 28_000), batch(133, 14_300, 17_100, 27_000, 33), 14_300, others=1.3)
SPINS = comparison(batch(2000, 58_000, 58_100, 90_000), batch(133, 14_300, 17_100, 27_000, 33), 14_300, others=1.3)
SLOWER = comparison(batch(1000, 63_000, 63_100, 50_000), batch(60, 52_000, 56_000, 51_000, 15), counted=33_000)
WOKEN_LATE = comparison(batch(2000, 20_000, 27_000, 15_000), batch(133, 14_300, 17_100, 16_000, 33), 14_300, others=1.5)
WORKS_LESS_WHEN_COUNTED = comparison(
    batch(1758, 45_000, 45_100, 29_300), batch(120, 10_300, 13_000, 11_800, 30), 10_300, others=1.4
)
SHOWS_LESS_WHEN_COUNTED = comparison(
    batch(2200, 28_000, 28_100, 28_000), batch(150, 9_000, 29_000, 28_500, 50), 9_000, others=1.0
)
SHOWS_LESS_ALWAYS = comparison(
    batch(2200, 9_500, 28_100, 28_000), batch(150, 9_000, 29_000, 28_500, 50), 9_000, others=1.0
)
SLOW_MACHINE_WHEN_BENCHMARKED = comparison(
    batch(1886, 22_250, 22_350, 22_400), batch(126, 10_800, 18_500, 17_100, 45), counted=15_900
)
FOUND = {
    "works less, on a machine that was slower in the interleaved benchmark": (
        SLOW_MACHINE_WHEN_BENCHMARKED,
        ClockResult.waited,
    ),
    "alone": (QUIET, ClockResult.agrees),
    "two threads beside others": (WAITED, ClockResult.waited),
    "two threads that spin beside others": (SPINS, ClockResult.waited),
    "slower than in the interleaved benchmark": (SLOWER, ClockResult.agrees_beside),
    "our clock was read late": (WOKEN_LATE, ClockResult.differs),
    "works less in short batches": (WORKS_LESS_WHEN_COUNTED, ClockResult.differs),
    "shows less in short batches": (SHOWS_LESS_WHEN_COUNTED, ClockResult.differs),
    "shows less in all batches": (SHOWS_LESS_ALWAYS, ClockResult.differs),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_a_batch_says(name: str) -> None:
    shown, expected = FOUND[name]

    assert shown.result is expected


LAUNCHED_LATE = batch(700, 182_000, 314_000, None)
"""Its device waited for launches: 8 us of a call and 174 of a flush, by its clock."""


@pytest.mark.parametrize(("waited_ms", "result"), [(0, ClockResult.differs), (70, ClockResult.waited)])
def test_a_process_that_waits_for_a_core_launches_late(waited_ms: int, result: ClockResult) -> None:
    late = replace(LAUNCHED_LATE, waited_ns=waited_ms * 1_000_000)
    short = batch(200, 8_000, 400_000, None)

    assert ClockCrossCheck(late, [short], 8_000, beside_ns=700 * 174_000).result is result


def test_who_always_waits_for_a_core_is_never_passed() -> None:
    """A process may make its own threads wait: that convicts nobody, and is no agreement either."""
    late = replace(LAUNCHED_LATE, waited_ns=10**9)
    check = ClockCrossCheck(late, [batch(200, 8_000, 400_000, None)], 8_000, beside_ns=700 * 174_000)
    tally = CrossCheckTally()
    while tally.is_open:
        tally.count(check, steady=True)

    assert check.result is ClockResult.waited and not tally.has_passed and not tally.has_failed


@pytest.mark.parametrize("waited_ms", [0, 20])
def test_answers_that_come_late_are_doubtful_unless_somebody_waited_for_a_core(waited_ms: int) -> None:
    """Seen on an H100 beside ten sessions: 4.29 ms of nine calls by its clock, 31.58 by ours, of a right kernel."""
    timed = Timed(ns=4_100_000, whole_ns=4_290_000, kept=0)
    late = Batch(9, 0, timed, 31_580_000, waited_ns=waited_ms * 1_000_000)

    assert late.is_doubtful == (waited_ms == 0)


@pytest.mark.parametrize("hidden_us", [0, 30])
def test_more_flushes_tell_who_launches_late_from_who_hides_work(hidden_us: int) -> None:
    short = batch(200, 8_000, 400_000, None)
    tally = CrossCheckTally(most_flushes=MOST_FLUSHES)
    late = ClockCrossCheck(LAUNCHED_LATE, [short], 8_000, beside_ns=700 * 174_000)
    assert late.result is ClockResult.differs
    while tally.flushes < MOST_FLUSHES:
        tally.count(late, steady=False)

    flushed = tally.flushes * 174_000
    checked = Batch(
        700,
        0,
        Timed(ns=700 * 8_000, whole_ns=700 * (8_000 + flushed), kept=0),
        700 * (8_000 + hidden_us * 1000 + flushed),
    )
    again = ClockCrossCheck(checked, [short], 8_000, beside_ns=700 * flushed, flushes=tally.flushes)

    assert (again.result is ClockResult.agrees) == (hidden_us == 0)


def long_calls(tally: CrossCheckTally, hidden_share: float = 0.0) -> ClockCrossCheck:
    """Calls of 4.4 ms on a loaded H100: nothing is hidden, but what surrounds a batch takes 7 to 15 ms more by ours."""
    calls = 9 * tally.times
    shown, flushed = 4_200_000, tally.flushes * 100_000
    timed = Timed(ns=calls * shown, whole_ns=calls * (shown + flushed), kept=0)
    around = 15_000_000 if tally.tries % 2 else 7_500_000
    checked = Batch(calls, 0, timed, round(calls * (shown * (1 + hidden_share) + flushed)) + around)
    short = batch(1, shown, 20_000_000, None)
    return ClockCrossCheck(checked, [short], shown, beside_ns=calls * flushed, flushes=tally.flushes)


def count_until_decided(tally: CrossCheckTally, hidden_share: float, *, steady: bool) -> ClockResult:
    while tally.is_open and not tally.has_failed:
        comparison = long_calls(tally, hidden_share)
        if comparison.result is ClockResult.agrees:
            return comparison.result
        tally.count(comparison, steady=steady)
    return ClockResult.differs


@pytest.mark.parametrize("steady", [True, False])
def test_what_surrounds_a_batch_of_long_calls_convicts_nobody(steady: bool) -> None:
    tally = CrossCheckTally(most_flushes=MOST_FLUSHES)

    assert count_until_decided(tally, 0.0, steady=steady) is ClockResult.agrees
    assert tally.flushes == 1, "more flushes say nothing of calls that are longer than they"


def test_a_share_of_long_calls_that_is_hidden_is_seen() -> None:
    tally = CrossCheckTally(most_flushes=MOST_FLUSHES)

    assert count_until_decided(tally, 0.25, steady=True) is ClockResult.differs
    assert tally.has_failed


def test_a_claim_that_grows_in_the_checked_batch_buys_no_tolerance() -> None:
    flushed, hidden = MOST_FLUSHES * 174_000, 30_000
    elapsed = 700 * (8_000 + hidden + flushed)
    boasts = Batch(700, 0, Timed(ns=elapsed, whole_ns=elapsed, kept=0), elapsed)
    check = ClockCrossCheck(
        boasts, [batch(200, 8_000, 400_000, None)], 8_000, beside_ns=700 * flushed, flushes=MOST_FLUSHES
    )

    assert check.result is ClockResult.differs


def test_threads_of_its_own_are_no_excuse() -> None:
    alone = ClockCrossCheck(SPINS.checked, SPINS.short, SPINS.counted_ns, others=0.0)

    assert alone.result is ClockResult.differs


def test_where_the_system_does_not_tell_the_processor_time_nobody_has_waited() -> None:
    unknown = comparison(batch(2000, 58_000, 58_100, None), batch(133, 14_300, 17_100, None, 33), 14_300, others=1.3)

    assert unknown.result is ClockResult.differs


@pytest.mark.parametrize("disagreement", [WORKS_LESS_WHEN_COUNTED, SHOWS_LESS_WHEN_COUNTED, SHOWS_LESS_ALWAYS])
def test_clocks_that_disagree_time_and_again_fail_the_cross_check(disagreement: ClockCrossCheck) -> None:
    tally = CrossCheckTally()
    for _ in range(CLOCK_TRIES):
        assert not tally.has_failed
        tally.count(disagreement, steady=True)

    assert tally.has_failed
    assert not tally.has_passed


def test_more_work_fails_the_cross_check_however_late_our_clock_is_read() -> None:
    tally = CrossCheckTally()
    for _ in range(CLOCK_TRIES):
        tally.count(WORKS_LESS_WHEN_COUNTED, steady=False)

    assert tally.has_failed


def test_waiting_neither_fails_nor_passes_the_cross_check() -> None:
    tally = CrossCheckTally()
    while tally.is_open:
        tally.count(WAITED, steady=True)
        assert not tally.has_failed
        assert not tally.has_passed


def test_a_liar_whose_short_batches_are_slowed_now_and_then_is_found_out() -> None:
    tally = CrossCheckTally()
    for lucky in (True, False, False, True, False, False, False):
        tally.count(SLOWER if lucky else WORKS_LESS_WHEN_COUNTED, steady=True)
        assert not tally.has_passed

    assert tally.has_failed


def test_who_became_slower_after_the_interleaved_benchmark_is_believed_in_the_end() -> None:
    tally = CrossCheckTally()
    for shown in (SLOWER, WAITED, SLOWER, WAITED, SLOWER):
        assert not tally.has_passed
        tally.count(shown, steady=True)

    assert tally.has_passed


def test_a_batch_on_which_the_clocks_differ_grows_and_waiting_does_not_grow_with_it() -> None:
    tally = CrossCheckTally()
    tally.count(WOKEN_LATE, steady=False)
    longer = batch(4000 * tally.times, 20_000, 20_000 + 14e6 / (4000 * tally.times), 15_000)

    assert tally.times == 2
    assert ClockCrossCheck(longer, WOKEN_LATE.short, WOKEN_LATE.counted_ns).clock_agrees
    tally.count(QUIET, steady=True)
    assert tally.times == 1


def test_waiting_at_the_end_of_a_batch_is_no_doubt() -> None:
    waited = Batch(13, 0, Timed(ns=7_000_000, whole_ns=7_250_000, kept=0), 35_520_000, 12_000_000)
    shows_nothing = Batch(13, 0, Timed(ns=0, whole_ns=0, kept=0), 35_520_000, 34_000_000)

    assert not waited.is_doubtful
    assert shows_nothing.is_doubtful


@pytest.mark.skipif(sys.platform != "linux", reason="clocks of other processes are Linux's")
def test_processor_time_of_another_process_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as worker:
        before, deadline = work_ns(worker.pid), time.monotonic() + 60
        assert before is not None
        while (now := work_ns(worker.pid) or 0) < before + 10_000_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        worker.kill()

    assert now >= before + 10_000_000
    assert work_ns(worker.pid) is None
    assert work_ns(0) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_others_are_counted_in_cores() -> None:
    others = BackgroundLoad([])

    assert 0.0 <= others.cores() <= (os.cpu_count() or 1)


class _Late(SelfTimed):
    """A process whose answers come late; ``steady`` says what an honest one beside it is seen to do."""

    def __init__(self, late: list[bool], steady: list[bool]) -> None:
        self.late, self.steady = late, steady
        self.copies, self.doubts, self.far_apart = [None], 0, 0
        self.untrusted = SimpleNamespace(ask=self._answer, worker=SimpleNamespace(pid=os.getpid()))
        self.timing = SimpleNamespace(on_processor=False)
        self.idle_check = SimpleNamespace(begin=lambda: None, end=lambda: None)

    async def _answer(self, request: Time, kind: type, case: object) -> tuple[Timed, None]:
        await asyncio.sleep(1.1 * CHECK_NS / 1e9 if self.late.pop(0) else 0)
        return Timed(ns=1_000_000, whole_ns=1_000_000, kept=0), None

    def _baselines(self) -> list[None]:
        return [None]

    async def _is_steady(self, honest: object, flushes: int = 1, times: int = 1) -> bool:
        return self.steady.pop(0)


async def _batches(process: _Late) -> None:
    while process.late:
        await process._time_twice(Time(calls=9))


async def test_a_supervisor_that_hears_late_of_several_batches_convicts_nobody() -> None:
    # A right kernel on an H100, beside nine other searches: 9 calls of 0.23 ms took 31.58 ms by the supervisor's clock.
    await _batches(_Late(late=[True] * 4 + [False] + [True] * 4, steady=[True, True, True, True]))
    await _batches(_Late(late=[True] * 7, steady=[True, False, False, True, False]))


async def test_a_clock_that_shows_nothing_of_batch_after_batch_is_found_out() -> None:
    process = _Late(late=[True] * 9, steady=[True] * 9)
    with pytest.raises(Judged, match="its clock shows"):
        await _batches(process)
    assert len(process.late) == 4, "the fifth one is enough"
