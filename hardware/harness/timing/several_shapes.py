"""Combines the runs at several timed shapes: weighted geometric means. Pure.

A geometric mean is the same whichever shape takes longer, and a ratio of means is the mean of ratios. The baseline that
counts is the fastest one at each shape: nobody who could pick one for each shape would be slower.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ....schemas import (
    BaselineReport,
    BaselineStatus,
    Interval,
    ProfileReport,
    Roofline,
    ShapeBaselines,
    ShapeFacts,
    ShapeTiming,
    Timing,
)
from ....schemas.pool import BEST_PER_SHAPE
from .statistics import shared_reach, weighted_mean


def timing_of(shapes: Sequence[ShapeTiming]) -> Timing:
    """The mean of the runs at all timed shapes; that of a single one as it is."""
    if len(shapes) == 1:
        return shapes[0].timing
    timings, weights = [shape.timing for shape in shapes], [shape.weight for shape in shapes]
    speedup = {name: _mean(shapes, [name] * len(shapes)) for name in _common([timing.speedup for timing in timings])}
    median_ms = _means([timing.median_ms for timing in timings], weights)
    bests = [timing.best for timing in timings]
    best = bests[0]
    if len(set(bests)) > 1:
        best = BEST_PER_SHAPE
        speedup[best] = _mean(shapes, bests)
        times = [timing.median_ms[name] for timing, name in zip(timings, bests, strict=True)]
        median_ms[best] = _geometric(times, weights)
    return Timing(
        series=(),
        speedup=speedup,
        best=best,
        median_ms=median_ms,
        spread=max(timing.spread for timing in timings),
        run_spread=max(timing.run_spread for timing in timings),
        measure=timings[0].measure if len({timing.measure for timing in timings}) == 1 else "",
        warm_ms=_means([timing.warm_ms for timing in timings], weights),
        shapes=tuple(shapes),
        absent={name: why for timing in timings for name, why in timing.absent.items()},
        pending=tuple(dict.fromkeys(name for timing in timings for name in timing.pending)),
    )


def profile_of(timed: Sequence[ShapeFacts], reports: Sequence[ProfileReport]) -> ProfileReport:
    """The reports of the ``timed`` shapes as one; the last one alone if it says that the candidate is wrong.

    Counters are those of the first shape, seconds of all.
    """
    seconds = math.fsum(report.seconds for report in reports)
    if reports[-1].timing is None:
        return replace(reports[-1], seconds=seconds)
    shapes = [
        ShapeTiming(shape=shape.name, weight=shape.weight or 1.0, timing=report.timing, roofline=report.roofline)
        for shape, report in zip(timed, reports, strict=True)
        if report.timing is not None
    ]
    rooflines = [(shape.weight, shape.roofline) for shape in shapes if shape.roofline is not None]
    return replace(
        reports[0],
        timing=timing_of(shapes),
        roofline=roofline_of(rooflines) if len(rooflines) > 1 else reports[0].roofline,
        seconds=seconds,
    )


def roofline_of(shapes: Sequence[tuple[float, Roofline]]) -> Roofline:
    """The mean of rooflines, each with its weight; the limit is that of the heaviest shape."""
    weights = [weight for weight, _ in shapes]
    return Roofline(
        floor_ms=_geometric([roofline.floor_ms for _, roofline in shapes], weights),
        fraction=_geometric([roofline.fraction for _, roofline in shapes], weights),
        limit=max(shapes, key=lambda shape: shape[0])[1].limit,
    )


def report_of(timed: Sequence[ShapeFacts], reports: Sequence[BaselineReport]) -> BaselineReport:
    """The reports of the ``timed`` shapes as one."""
    return baselines_of(
        [
            ShapeBaselines(shape=shape.name, weight=shape.weight or 1.0, report=report)
            for shape, report in zip(timed, reports, strict=True)
        ]
    )


def baselines_of(shapes: Sequence[ShapeBaselines]) -> BaselineReport:
    """The mean of the first timings at all timed shapes; that of a single one as it is."""
    if len(shapes) == 1:
        return shapes[0].report
    reports, weights = [shape.report for shape in shapes], [shape.weight for shape in shapes]
    median_ms = _means([report.median_ms for report in reports], weights)
    bests = [report.best for report in reports]
    best = bests[0]
    if len(set(bests)) > 1:
        best = BEST_PER_SHAPE
        times = [report.median_ms[name] for report, name in zip(reports, bests, strict=True)]
        median_ms[best] = _geometric(times, weights)
    return BaselineReport(
        statuses=_statuses(shapes),
        median_ms=median_ms,
        best=best,
        roofline=roofline_of([(shape.weight, shape.report.roofline) for shape in shapes]),
        seconds=max(report.seconds for report in reports),
        measure=reports[0].measure if len({report.measure for report in reports}) == 1 else "",
        not_replayed=next((report.not_replayed for report in reports if report.not_replayed), ""),
        shapes=tuple(shapes),
    )


def _statuses(shapes: Sequence[ShapeBaselines]) -> tuple[BaselineStatus, ...]:
    """A baseline is there if it is there at every shape; the reason names the first shape at which it is not."""
    statuses: dict[str, BaselineStatus] = {}
    for shape in shapes:
        for status in shape.report.statuses:
            before = statuses.get(status.name)
            detail = status.detail if status.ok else f"at shape {shape.shape}: {status.detail}"
            if before is None or (before.ok and not status.ok):
                seconds = status.seconds + (before.seconds if before else 0.0)
                statuses[status.name] = BaselineStatus(
                    name=status.name, ok=status.ok, seconds=seconds, detail=detail, pending=status.pending
                )
    return tuple(statuses.values())


def _mean(shapes: Sequence[ShapeTiming], names: Sequence[str]) -> Interval:
    """Of the speedups against the baseline that ``names`` has for each shape."""
    intervals = [shape.timing.speedup[name] for shape, name in zip(shapes, names, strict=True)]
    shared = [shared_reach(shape.timing.run_spread, len(shape.timing.rounds)) for shape in shapes]
    return weighted_mean(intervals, [shape.weight for shape in shapes], shared)


def _means(values: Sequence[Mapping[str, float]], weights: Sequence[float]) -> dict[str, float]:
    return {name: _geometric([value[name] for value in values], weights) for name in _common(values)}


def _common(values: Sequence[Mapping[str, object]]) -> list[str]:
    """Names that all of them have, in the order of the first."""
    return [name for name in values[0] if all(name in value for value in values)]


def _geometric(values: Sequence[float], weights: Sequence[float]) -> float:
    if min(values) <= 0:
        return 0.0
    total = math.fsum(weight * math.log(value) for value, weight in zip(values, weights, strict=True))
    return math.exp(total / math.fsum(weights))
