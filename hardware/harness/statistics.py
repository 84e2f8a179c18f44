"""Medians, and how sure we are of their ratio. Pure."""

import math
import random
from collections.abc import Sequence
from statistics import median

from ...schemas import Interval

RESAMPLES = 1000
LEVEL = 0.95
_SEED = 20_231
_DEVIATIONS = 1.96
"""Standard deviations on either side that hold :data:`LEVEL` of a normal distribution."""


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


def in_a_new_run(found: Interval, spread: float) -> Interval:
    """Where the median of another run is to be expected, 95 of 100 times.

    A run's own samples do not show what differs from run to run: where the memory of its processes lies, what the
    machine does meanwhile. Another run differs from the true ratio as this one does, by its samples and by that, so
    the squares of both count twice.

    Args:
        found: What the samples of one run say.
        spread: Standard deviation of the ratio's logarithm from run to run, beyond what the samples show.
    """
    beyond = _DEVIATIONS * spread
    down = math.sqrt(2) * math.hypot(math.log(found.median / found.low), beyond)
    up = math.sqrt(2) * math.hypot(math.log(found.high / found.median), beyond)
    return Interval(median=found.median, low=found.median * math.exp(-down), high=found.median * math.exp(up))


def relative_width(interval: Interval) -> float:
    """Width of the interval as a share of its median."""
    return (interval.high - interval.low) / interval.median
