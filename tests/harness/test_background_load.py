"""Others' work on the processor is told from our own."""

import math
import os
import subprocess
import sys
import time

import pytest

from kernelswarm.hardware.harness.timing.interleaved import CANDIDATE, Part, result, spread_of
from kernelswarm.hardware.machine.background_load import BackgroundLoad
from kernelswarm.schemas import Series

BUSY = "while True: pass"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_work_of_others_counts_and_our_own_does_not() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as worker:
        ours, others = BackgroundLoad([worker.pid]), BackgroundLoad([])
        deadline = time.monotonic() + 60
        while others.share() < ours.share() + 0.05 and time.monotonic() < deadline:
            time.sleep(0.05)
        shares = ours.share(), others.share()
        worker.kill()

    assert 0.0 <= shares[0] < shares[1] <= 1.0


@pytest.mark.skipif(sys.platform != "linux" or len(CORES) < 2, reason="needs two cores and /proc")
def test_work_on_cores_that_we_may_not_use_takes_nothing_away() -> None:
    on_both = _time_of(CORES[:2])
    on_one = _time_of(CORES[:1])

    assert 0.25 < on_one / on_both < 0.75


def _time_of(cores: list[int]) -> float:
    """Ticks that the cores have had, worked or idle, in half a second in which we may use these alone."""
    os.sched_setaffinity(0, cores)
    try:
        load = BackgroundLoad([])
        before = load._now()
        time.sleep(0.5)
        after = load._now()
    finally:
        os.sched_setaffinity(0, CORES)
    assert before is not None and after is not None
    return after[0] - before[0]


def test_a_process_that_is_gone_has_done_nothing() -> None:
    assert 0.0 <= BackgroundLoad([2**22 - 1]).share() <= 1.0


def test_the_more_others_do_the_wider_the_interval() -> None:
    series = tuple(Series(name=name, samples_ns=(20_000,) * 9, calls=1) for name in ("eager", CANDIDATE))

    alone, beside = result([Part(series)]), result([Part(series, others=0.5)])
    assert (alone.background_load, beside.background_load) == (0.0, 0.5)

    usual = spread_of(20_000)
    assert alone.spread == pytest.approx(math.hypot(usual.process, usual.run))
    assert alone.spread < beside.spread
    assert beside.speedup["eager"].low < alone.speedup["eager"].low < 1 < alone.speedup["eager"].high
