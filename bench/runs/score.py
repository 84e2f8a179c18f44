"""What the rows come to: fast_p, geometric means, and the misses by cause. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, geometric_mean

from ...schemas import Schema
from .row import AGAINST, Row

THRESHOLDS = (1.0, 1.5, 2.0)


class FastP(Schema, frozen=True, kw_only=True):
    """Share of the problems whose kernel is right and more than ``p`` times as fast.

    Ouyang et al., KernelBench: Can LLMs Write Efficient GPU Kernels? (2025), section 3.3. A miss counts as one that is
    not.
    """

    against: str
    """One of :data:`.row.AGAINST`: ``best``, ``eager`` or ``compile`` by the judge, ``ordinary_…`` in ordinary
    processes, ``call_…`` there on an accelerator."""
    p: float
    problems: int
    """Of how many it is the share."""
    count: int
    """Median speedup above ``p``."""
    surely: int
    """The whole 95 % interval above ``p``."""
    share: float
    """``count`` of ``problems``: fast_p as published; 0 of none."""
    sure_share: float
    """``surely`` of ``problems``."""


class Mean(Schema, frozen=True, kw_only=True):
    """Geometric mean of the speedups over every problem; one without a sure win counts as 1, where nothing changes."""

    against: str
    problems: int
    value: float


class Misses(Schema, frozen=True, kw_only=True):
    """Problems that were missed for one reason."""

    cause: str
    problems: tuple[str, ...]
    """Their names, by number."""


def fast_p(rows: Sequence[Row], against: str, p: float) -> FastP:
    """``fast_p`` of ``rows`` against one of :data:`.row.AGAINST`."""
    ratios = [ratio for row in rows if (ratio := row.speedup(against)) is not None]
    count = sum(ratio.median > p for ratio in ratios)
    surely = sum(ratio.low > p for ratio in ratios)
    problems = max(1, len(rows))
    return FastP(
        against=against,
        p=p,
        problems=len(rows),
        count=count,
        surely=surely,
        share=count / problems,
        sure_share=surely / problems,
    )


def scores(rows: Sequence[Row]) -> tuple[FastP, ...]:
    """At every threshold, against each baseline by the judge, and in other processes where any problem was timed."""
    return tuple(fast_p(rows, against, p) for against in _measured(rows) for p in THRESHOLDS)


def means(rows: Sequence[Row]) -> tuple[Mean, ...]:
    """Against the same."""
    return tuple(mean(rows, against) for against in _measured(rows)) if rows else ()


def mean(rows: Sequence[Row], against: str) -> Mean:
    """The geometric mean over ``rows``, of which there is at least one, against one of :data:`.row.AGAINST`."""
    ratios = [row.speedup(against) for row in rows]
    kept = [ratio.median if ratio is not None and ratio.is_win else 1.0 for ratio in ratios]
    return Mean(against=against, problems=len(rows), value=geometric_mean(kept))


def mean_score(rows: Sequence[Row]) -> float | None:
    """Arithmetic mean of the benchmark's own score, where a row without one counts 0; None if no row has one."""
    if all(row.score is None for row in rows):
        return None
    return fmean(row.score or 0.0 for row in rows)


def misses(rows: Sequence[Row]) -> tuple[Misses, ...]:
    """Those without an interval above 1 over the best baseline, by cause, the commonest first."""
    by_cause: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.is_miss:
            by_cause[row.cause].append(row.problem)
    ordered = sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(Misses(cause=cause, problems=tuple(names)) for cause, names in ordered)


def _measured(rows: Sequence[Row]) -> tuple[str, ...]:
    """What there is to compare with: the judge's always, others where any problem was timed so."""
    judged = ("best", "eager", "compile")
    return tuple(
        against for against in AGAINST if against in judged or any(row.speedup(against) is not None for row in rows)
    )
