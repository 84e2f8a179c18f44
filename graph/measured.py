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


@dataclass(frozen=True)
class Measured:
    """Fields as in :class:`.session.SearchResult`."""

    measure: str = ""
    ordinary: Ordinary | None = None
    device: Ordinary | None = None
    call: Ordinary | None = None


def measured(opened: SessionOpened, profile: ProfileReport | None) -> Measured:
    """The judge and ordinary processes on a processor; device and call on an accelerator."""
    judged, ordinary = (_times(timing) for timing in ((profile.timing, profile.ordinary) if profile else (None, None)))
    if opened.is_on_processor:
        return Measured(ordinary=ordinary)
    return Measured(measure=opened.measure, device=judged, call=ordinary)


def _times(timing: Timing | None) -> Ordinary | None:
    if timing is None:
        return None
    return Ordinary(times_ms=timing.median_ms, speedups=timing.speedup, warm_ms=timing.warm_ms)
