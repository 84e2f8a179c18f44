"""Medians, and intervals of their ratios. Pure."""

import math
import random
from collections.abc import Sequence
from statistics import fmean, median

from ....schemas import Interval

RESAMPLES = 1000
LEVEL = 0.95
_SEED = 20_231
_DEVIATIONS = 1.96
"""Standard deviations on either side that hold :data:`LEVEL` of a normal distribution."""
PRIOR_FREEDOM = 6
"""How many further processes what is usual counts for, beside those that were timed."""


def speedup(baseline: Sequence[float], candidate: Sequence[float]) -> Interval:
    """Ratio of medians ``baseline / candidate`` with a 95 % percentile bootstrap interval.

    Samples are paired: sample i of both was taken in round i, and rounds are resampled whole, so that what disturbed
    both does not count as a difference (Efron, Tibshirani: An Introduction to the Bootstrap, 1993, chapters 8 and 13).
    Rounds are drawn in short runs of neighbours, because a disturbance lasts longer than a round (Politis, Romano: A
    circular block-resampling procedure for stationary data, 1992). Deterministic: the generator has a fixed seed.

    Args:
        baseline: Times of one call, any unit, positive.
        candidate: As many, same unit.

    Raises:
        ValueError: no samples, different numbers of samples, or a sample that is not positive.
    """
    if not baseline or len(baseline) != len(candidate):
        raise ValueError(
            f"{len(baseline)} baseline and {len(candidate)} candidate samples: need the same number, not 0"
        )
    if min(baseline) <= 0 or min(candidate) <= 0:
        raise ValueError("a time is not positive")
    generator = random.Random(_SEED)
    ratios = sorted(
        median(baseline[i] for i in picked) / median(candidate[i] for i in picked)
        for picked in (_rounds(generator, len(baseline)) for _ in range(RESAMPLES))
    )
    tail = (1 - LEVEL) / 2
    return Interval(
        median=median(baseline) / median(candidate),
        low=ratios[int(tail * (RESAMPLES - 1))],
        high=ratios[int((1 - tail) * (RESAMPLES - 1)) + 1],
    )


def _rounds(generator: random.Random, count: int) -> list[int]:
    """As many rounds as there are, in runs of neighbours; behind the last one comes the first."""
    together = round(count ** (1 / 3))
    begins = generator.choices(range(count), k=-(-count // together))
    return [(begin + step) % count for begin in begins for step in range(together)][:count]


def in_a_new_run(intervals: Sequence[Interval], process: float, run: float) -> Interval:
    """Where another run of as many processes is to be expected, 95 of 100 times.

    A process's own samples do not show what differs from process to process (where its memory and code lie, who is
    woken first), nor several processes what differs from run to run (the baselines' process, what the machine does
    meanwhile). The estimate is the geometric mean over the processes: a kernel that is fast in some and slow in others
    has no median that a few of them find. Few processes say little of how much they differ, and agree by chance:
    their variance is moderated by what kernels usually show (Smyth 2004, doi:10.2202/1544-6115.1027, section 3).
    Another run differs from the true ratio as this one does, so all of it counts twice.

    Args:
        intervals: What the samples of each process say.
        process: Standard deviation of the ratio's logarithm from process to process that is usual.
        run: The same from run to run, beyond the processes'.
    """
    logs = [math.log(interval.median) for interval in intervals]
    center, count = fmean(logs), len(intervals)
    usual = process**2 + fmean(_variance(interval) for interval in intervals)
    seen = sum((log - center) ** 2 for log in logs)
    freedom = PRIOR_FREEDOM + count - 1
    moderated = (PRIOR_FREEDOM * usual + seen) / freedom
    reach = _t_quantile(freedom) * math.sqrt(2 * (moderated / count + run**2))
    return Interval(median=math.exp(center), low=math.exp(center - reach), high=math.exp(center + reach))


def weighted_mean(intervals: Sequence[Interval], weights: Sequence[float], shared: Sequence[float]) -> Interval:
    """The weighted geometric mean of independent ratios, and where another run of all of them would find it.

    The logarithm of the mean is the weighted sum of logarithms. What differs from process to process is independent
    from ratio to ratio: variances add up. What all of a run have in common (the machine meanwhile) may move every
    ratio the same way: there deviations add up, which is the widest that any correlation can make it.

    Args:
        intervals: Of each ratio, symmetric around the logarithm of its median.
        weights: Positive; they need not add up to 1.
        shared: Reach of each interval's logarithm, to one side, that a run has in common; no more than all of it.

    Raises:
        ValueError: no ratios, different numbers of them, or a weight that is not positive.
    """
    if not intervals or not len(intervals) == len(weights) == len(shared) or min(weights) <= 0:
        raise ValueError(f"{len(intervals)} ratios, weights {list(weights)}: need as many positive weights, not 0")
    shares = [weight / math.fsum(weights) for weight in weights]
    reaches = [math.log(interval.high / interval.low) / 2 for interval in intervals]
    own = math.fsum(
        share**2 * max(0.0, reach**2 - common**2) for share, reach, common in zip(shares, reaches, shared, strict=True)
    )
    common = math.fsum(share * min(part, reach) for share, part, reach in zip(shares, shared, reaches, strict=True))
    center = math.fsum(share * math.log(interval.median) for share, interval in zip(shares, intervals, strict=True))
    reach = math.hypot(math.sqrt(own), common)
    return Interval(median=math.exp(center), low=math.exp(center - reach), high=math.exp(center + reach))


def shared_reach(run: float, processes: int) -> float:
    """The part of the reach of :func:`in_a_new_run` that comes of ``run``, from so many processes."""
    return _t_quantile(PRIOR_FREEDOM + processes - 1) * math.sqrt(2) * run


def _variance(interval: Interval) -> float:
    """Of the logarithm, as wide as the interval's wider side."""
    return (max(math.log(interval.median / interval.low), math.log(interval.high / interval.median)) / _DEVIATIONS) ** 2


def _t_quantile(freedom: int) -> float:
    """Student's t that holds :data:`LEVEL` on both sides (Abramowitz, Stegun 26.7.5); to 0.1 % from 4 degrees on."""
    z = _DEVIATIONS
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def relative_width(interval: Interval) -> float:
    """Width of the interval as a share of its median."""
    return (interval.high - interval.low) / interval.median
