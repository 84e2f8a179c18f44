"""The analyst's answer, to success and failure alike."""

from ..diagnosis import Advice, Bottleneck, Finding
from ..timing import Interval, ShapeSpeedup
from ..verdict import Verdict
from .base import Event


class NodeDiagnosed(Event, frozen=True, kw_only=True, tag="node.diagnosed.v1"):
    """What a node is worth, why, and what to try next."""

    verdict: Verdict
    """``correct`` or what is wrong."""
    fitness: float
    """Median speedup against the session's baseline, by the interleaved benchmark; 0 if wrong. The interval's low end
    where it is too noisy and the session is :attr:`~.SessionOpened.cautious`."""
    bottleneck: Bottleneck
    summary: str
    """One sentence for people."""
    speedup: Interval | None = None
    """Against :attr:`against`, by the interleaved benchmark."""
    against: str = ""
    ordinary: Interval | None = None
    """The same ratio in ordinary processes, where that was measured: what is reported, and what a win needs as well. On
    an accelerator it is the call's, which a win by the device's time does not need."""
    ordinary_against: str = ""
    """Name of the baseline that :attr:`ordinary` is measured against: the best one may differ from :attr:`against`."""
    ordinary_missing: str = ""
    """Why there is no :attr:`ordinary` although it was wanted; one sentence. Where that counts it is no win then."""
    broken_contract: str = ""
    """Why it is no win whatever its ratios are, where the device's time alone counts: the file is no drop-in."""
    shapes: tuple[ShapeSpeedup, ...] = ()
    """The speedups at every timed shape, where there are several: the others are their weighted geometric means."""
    absent: dict[str, str] = {}
    """As :attr:`.Timing.absent`: baselines that it was not compared with, and why."""
    pending: tuple[str, ...] = ()
    """As :attr:`.Timing.pending`: baselines that were still being compiled."""
    speedups: dict[str, float] = {}
    """Medians against all baselines, where others were timed before one of these had joined: so they can be ranked
    together. Else empty."""
    roofline_fraction: float | None = None
    evidence: tuple[Finding, ...] = ()
    advice: tuple[Advice, ...] = ()
    confirmation: bool = False
    """Whether it speaks of a confirmation run."""
    exhausted: bool = False
    """The synthesizer has nothing new to propose."""
    retryable: bool = False
    """Its author may succeed with another plan later (a rate limit). Said only where there are several authors."""
