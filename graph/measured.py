"""What was measured of a candidate, under the names of its hardware: a processor has one number, an accelerator two."""

from dataclasses import dataclass

from ..schemas import Interval, ProfileReport, Schema, SessionOpened, Timing


class Ordinary(Schema, frozen=True, kw_only=True):
    """What the finished file measured in ordinary processes; or one of the two numbers of an accelerator."""

    times_ms: dict[str, float]
    """Median milliseconds by name, baselines and ``candidate``."""
    speedups: dict[str, Interval]
    """By baseline's name."""
    warm_ms: dict[str, float] = {}
    """As ``times_ms``, with a warm cache: of an accelerator's device times that a recording showed."""


class ShapeResult(Schema, frozen=True, kw_only=True):
    """What was measured at one of several timed shapes."""

    shape: str
    """Its name in the problem."""
    weight: float
    """In the weighted geometric mean."""
    speedup: Interval
    """By the judge, against the baseline that counts there."""
    counted: Interval
    """The one that people are told first: in ordinary processes where that was measured and counts, else by
    the judge."""
    against: str
    """Name of the baseline of :attr:`counted`."""
    times_ms: dict[str, float]
    """Median milliseconds by name that :attr:`counted` is made of, baselines and ``candidate``."""
    judged: Ordinary
    """By the judge; on an accelerator of the device."""
    ordinary: Ordinary | None = None
    """In ordinary processes; on an accelerator of the call."""
    roofline_fraction: float | None = None


@dataclass(frozen=True)
class Measured:
    """Fields as in :class:`.session.SearchResult`."""

    measure: str = ""
    ordinary: Ordinary | None = None
    device: Ordinary | None = None
    call: Ordinary | None = None
    shapes: tuple[ShapeResult, ...] = ()


def measured(opened: SessionOpened, profile: ProfileReport | None) -> Measured:
    """The judge and ordinary processes on a processor; device and call on an accelerator."""
    judged, ordinary = (_times(timing) for timing in ((profile.timing, profile.ordinary) if profile else (None, None)))
    shapes = by_shape(opened, profile)
    if opened.is_on_processor:
        return Measured(ordinary=ordinary, shapes=shapes)
    return Measured(measure=opened.measure, device=judged, call=ordinary, shapes=shapes)


def by_shape(opened: SessionOpened, profile: ProfileReport | None) -> tuple[ShapeResult, ...]:
    """What was measured at every timed shape; empty where one is timed."""
    if profile is None or profile.timing is None:
        return ()
    usual = {shape.shape: shape for shape in profile.ordinary.shapes} if profile.ordinary is not None else {}
    results = []
    for shape in profile.timing.shapes:
        ordinary = usual.get(shape.shape)
        counted = shape if opened.counts_device_alone or ordinary is None else ordinary
        judged = _times(shape.timing)
        assert judged is not None
        results.append(
            ShapeResult(
                shape=shape.shape,
                weight=shape.weight,
                speedup=shape.counted(opened.against),
                counted=counted.counted(opened.against),
                against=counted.timing.baseline(opened.against),
                times_ms=counted.timing.median_ms,
                judged=judged,
                ordinary=_times(ordinary.timing) if ordinary is not None else None,
                roofline_fraction=shape.roofline.fraction if shape.roofline is not None else None,
            )
        )
    return tuple(results)


def mean_text(shapes: int) -> str:
    """What times are where ``shapes`` are timed, to stand behind a name; empty where one is."""
    return f" (geometric mean of {shapes} shapes)" if shapes > 1 else ""


def _times(timing: Timing | None) -> Ordinary | None:
    if timing is None:
        return None
    return Ordinary(times_ms=timing.median_ms, speedups=timing.speedup, warm_ms=timing.warm_ms)
