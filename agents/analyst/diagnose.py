"""``diagnose(graph, node, event)``: pure, so that a replay can hold every diagnosis against the recorded one."""

from ...schemas import (
    Bottleneck,
    CandidateProfiled,
    CompilationFailed,
    Event,
    NodeDiagnosed,
    ProfileReport,
    ProfilingFailed,
    SynthesisFailed,
    VerificationFailed,
)
from ...schemas.pool import BASELINE_NAMES
from ..graph import SearchGraph
from . import evidence, faults
from .limits import Limits, advise, bottleneck


def diagnose(graph: SearchGraph, node: str, event: Event) -> NodeDiagnosed:
    """What ``node`` is worth, why, and what to try, as of ``event``.

    Raises:
        TypeError: the analyst does not answer events of this kind.
    """
    match event:
        case SynthesisFailed():
            return faults.synthesis(event)
        case CompilationFailed():
            return faults.compilation(event)
        case VerificationFailed():
            return faults.verification(graph, node, event)
        case ProfilingFailed():
            return faults.profiling(event)
        case CandidateProfiled():
            return _measured(graph, node, event.report, event.confirmation)
    raise TypeError(f"the analyst does not answer {type(event).__name__}")


def _measured(graph: SearchGraph, node: str, report: ProfileReport, confirmation: bool) -> NodeDiagnosed:
    timing, roofline = report.timing, report.roofline
    assert timing is not None, "a correct profile has a timing"
    speedup = timing.speedup[timing.best]
    limits = Limits.of(graph, node, report)
    named = bottleneck(limits)
    findings = [*evidence.of_limits(limits), *evidence.of_family(graph, node, speedup.median)]
    return NodeDiagnosed(
        verdict=report.verdict,
        fitness=speedup.median,
        bottleneck=named,
        summary=_summary(speedup.median, timing.best, named, limits),
        speedup=speedup,
        against=timing.best,
        roofline_fraction=roofline.fraction if roofline else None,
        evidence=tuple(findings),
        advice=tuple(advise(limits, named)),
        confirmation=confirmation,
    )


def _summary(speedup: float, against: str, named: Bottleneck, limits: Limits) -> str:
    share = f", {limits.fraction:.0%} of the roofline" if limits.fraction is not None else ""
    return f"{speedup:.2f}x against {BASELINE_NAMES.get(against, against)}{share}; limited by {named.replace('_', ' ')}"
