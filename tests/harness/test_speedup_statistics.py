"""The bootstrap interval covers what it says, and is the same every time."""

import math
import random
from collections.abc import Callable

import pytest

from kernelswarm.hardware.harness.timing.statistics import (
    in_a_new_run,
    relative_width,
    shared_reach,
    speedup,
    weighted_mean,
)
from kernelswarm.schemas import Interval


def test_constant_samples_have_an_exact_ratio() -> None:
    interval = speedup([30.0] * 5, [10.0] * 5)

    assert (interval.low, interval.median, interval.high) == (3.0, 3.0, 3.0)
    assert relative_width(interval) == 0.0
    assert interval.is_win


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says() -> None:
    generator = random.Random(1)
    covered = 0
    for _ in range(100):
        baseline = [20 * generator.lognormvariate(0, 0.1) for _ in range(15)]
        candidate = [10 * generator.lognormvariate(0, 0.1) for _ in range(15)]
        interval = speedup(baseline, candidate)
        covered += interval.low <= 2.0 <= interval.high

    assert covered >= 88


def test_equal_implementations_are_rarely_a_win() -> None:
    generator = random.Random(2)
    wins = sum(
        speedup(
            [generator.lognormvariate(0, 0.1) for _ in range(15)],
            [generator.lognormvariate(0, 0.1) for _ in range(15)],
        ).is_win
        for _ in range(100)
    )

    assert wins <= 7


def test_a_disturbance_that_hits_both_does_not_count() -> None:
    generator = random.Random(3)
    noise = [generator.lognormvariate(0, 1.0) for _ in range(30)]
    paired = speedup([2 * factor for factor in noise], noise)
    unpaired = speedup([2 * factor for factor in noise], noise[::-1])

    assert paired.low == pytest.approx(2.0)
    assert relative_width(paired) < relative_width(unpaired)


def test_one_outlier_moves_neither_median_nor_interval_far() -> None:
    interval = speedup([10.0] * 20 + [500.0], [5.0] * 21)

    assert (interval.low, interval.median, interval.high) == (2.0, 2.0, 2.0)


def test_it_is_deterministic() -> None:
    samples = [random.Random(4).random() + 1 for _ in range(9)]

    assert speedup(samples, samples[::-1]) == speedup(samples, samples[::-1])


@pytest.mark.parametrize(("baseline", "candidate"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0])])
def test_samples_that_say_nothing_are_refused(baseline: list[float], candidate: list[float]) -> None:
    with pytest.raises(ValueError, match=r"samples|positive"):
        speedup(baseline, candidate)


PROCESS, RUN, SAMPLES = 0.05, 0.02, 0.01
PAIRS = 1000


def covered(processes: int, effect: Callable[[random.Random], float]) -> float:
    """Share of runs whose median lies in the interval of another; the processes of a kernel differ by ``effect``."""
    generator = random.Random(5)

    def run() -> Interval:
        baselines = generator.gauss(math.log(2), RUN)
        intervals = []
        for _ in range(processes):
            ratio = math.exp(baselines + effect(generator) + generator.gauss(0, SAMPLES))
            reach = math.exp(1.96 * SAMPLES)
            intervals.append(Interval(median=ratio, low=ratio / reach, high=ratio * reach))
        return in_a_new_run(intervals, PROCESS, RUN)

    pairs = [(run(), run()) for _ in range(PAIRS)]
    return sum(old.low <= new.median <= old.high for old, new in pairs) / PAIRS


@pytest.mark.parametrize("processes", [1, 4])
def test_a_new_run_lies_in_the_interval_as_often_as_it_says(processes: int) -> None:
    assert 0.95 <= covered(processes, lambda generator: generator.gauss(0, PROCESS)) <= 0.99


def test_so_it_does_for_a_kernel_that_is_fast_in_some_processes_and_slow_in_others() -> None:
    assert covered(4, lambda generator: generator.choice((0.0, 2 * PROCESS))) >= 0.95


def test_processes_that_differ_more_than_is_usual_widen_the_interval() -> None:
    alike = [Interval(median=2.0, low=1.98, high=2.02)] * 4
    apart = [Interval(median=m, low=0.99 * m, high=1.01 * m) for m in (1.6, 1.8, 2.2, 2.5)]

    assert relative_width(in_a_new_run(apart, PROCESS, RUN)) > 1.5 * relative_width(in_a_new_run(alike, PROCESS, RUN))


def test_more_processes_narrow_it() -> None:
    interval = Interval(median=2.0, low=1.98, high=2.02)

    widths = [relative_width(in_a_new_run([interval] * count, PROCESS, RUN)) for count in (1, 2, 4, 8)]

    assert widths == sorted(widths, reverse=True)


def test_what_differs_from_run_to_run_is_no_win() -> None:
    interval = in_a_new_run([Interval(median=1.02, low=1.015, high=1.025)], 0.0, 0.02)

    assert not interval.is_win
    assert interval.low < 0.98 and interval.high > 1.06
    assert interval.median == pytest.approx(1.02)


def test_without_samples_to_doubt_only_the_runs_differ() -> None:
    exact = Interval(median=2.0, low=2.0, high=2.0)
    same = in_a_new_run([exact] * 4, 0.0, 0.0)

    assert (same.low, same.median, same.high) == pytest.approx((2.0, 2.0, 2.0))
    # Student's t for 9 degrees of freedom is 2.262.
    assert in_a_new_run([exact] * 4, 0.0, 0.01).low == pytest.approx(2.0 * math.exp(-2.262 * 2**0.5 * 0.01), rel=1e-4)


def test_disturbances_that_last_widen_the_interval() -> None:
    generator = random.Random(6)
    calm = [generator.lognormvariate(0, 0.2) for _ in range(60)]
    candidate = [1.0] * 60

    lasting = speedup(sorted(calm), candidate)
    passing = speedup(calm, candidate)

    assert relative_width(lasting) > 1.2 * relative_width(passing)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0, 0.5)])
def test_the_mean_of_several_ratios_covers_another_run_about_as_often_as_it_says(weights: tuple[float, ...]) -> None:
    """Processes differ independently at each shape, a run moves all shapes the same way: the worst correlation."""
    generator = random.Random(5)
    process, run, processes = 0.03, 0.02, 4

    def intervals() -> list[Interval]:
        common = generator.gauss(0, run)
        measured = []
        for _ in weights:
            ratios = [math.exp(common + generator.gauss(0, process)) for _ in range(processes)]
            exact = [Interval(median=ratio, low=ratio, high=ratio) for ratio in ratios]
            measured.append(in_a_new_run(exact, process, run))
        return measured

    shared = [shared_reach(run, processes)] * len(weights)
    covered = 0
    for _ in range(600):
        this, another = (weighted_mean(intervals(), weights, shared) for _ in range(2))
        covered += this.low <= another.median <= this.high

    assert 0.93 <= covered / 600 <= 0.995


def test_the_mean_of_one_ratio_is_that_ratio() -> None:
    interval = Interval(median=2.0, low=1.8, high=2.0 / 0.9)
    mean = weighted_mean([interval], [7.0], [0.02])

    assert (mean.low, mean.median, mean.high) == pytest.approx((interval.low, interval.median, interval.high))


def test_what_a_run_has_in_common_does_not_average_out() -> None:
    intervals = [Interval(median=2.0, low=2.0 / 1.1, high=2.2)] * 4
    reach = math.log(1.1)
    own, common = (weighted_mean(intervals, [1.0] * 4, [part] * 4) for part in (0.0, reach))

    assert math.log(own.high / own.median) == pytest.approx(reach / 2)
    assert math.log(common.high / common.median) == pytest.approx(reach)


@pytest.mark.parametrize("weights", [[], [1.0], [1.0, 0.0]])
def test_a_mean_needs_a_positive_weight_for_each_ratio(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="positive weights"):
        weighted_mean([Interval(median=1.0, low=1.0, high=1.0)] * 2, weights, [0.0] * 2)
