"""``diagnose(graph, node, event)``: pure, so that a replay can hold every diagnosis against the recorded one."""

from dataclasses import dataclass

from ...graph.session_graph import SearchGraph
from ...schemas import (
    Advice,
    Bottleneck,
    CandidateProfiled,
    CompilationFailed,
    Event,
    Finding,
    Interval,
    NodeDiagnosed,
    ProfileReport,
    ProfilingFailed,
    ShapeSpeedup,
    SynthesisFailed,
    Timing,
    VerificationFailed,
)
from ...schemas.pool import BASELINE_NAMES
from ...schemas.timing import LEAST_LOAD
from . import (
    accelerator,
    accelerator_advice,
    accelerator_findings,
    evidence,
    faults,
)
from .accelerator import DeviceLimits
from .limits import Limits, advise, bottleneck

LIMITED_BY = "; limited by "
"""Between what was measured and its limit in a summary."""


def diagnose(graph: SearchGraph, node: str, event: Event) -> NodeDiagnosed:
    """What ``node`` is worth, why, and what to try, as of ``event``.

    Raises:
        TypeError: the analyst does not answer events of this kind.
    """
    match event:
        case SynthesisFailed():
            return faults.synthesis(graph, event)
        case CompilationFailed():
            return faults.compilation(event)
        case VerificationFailed():
            return faults.verification(graph, node, event)
        case ProfilingFailed():
            return faults.profiling(event)
        case CandidateProfiled():
            return _measured(graph, node, event.report, event.confirmation)
    raise TypeError(f"the analyst does not answer {type(event).__name__}")


@dataclass(frozen=True)
class _Limit:
    """What limits a candidate, by whichever means its pool offers."""

    named: Bottleneck
    in_short: str
    findings: tuple[Finding, ...]
    advice: tuple[Advice, ...]


def _measured(graph: SearchGraph, node: str, report: ProfileReport, confirmation: bool) -> NodeDiagnosed:
    timing, roofline = report.timing, report.roofline
    assert timing is not None, "a correct profile has a timing"
    baseline = graph.opened.against if graph.opened is not None else "best"
    against = timing.baseline(baseline)
    speedup = timing.speedup[against]
    ordinary_against = report.ordinary.baseline(baseline) if report.ordinary is not None else ""
    ordinary = report.ordinary.speedup[ordinary_against] if report.ordinary is not None else None
    first, shapes = report.at_first_shape(), _by_shape(report, baseline)
    limits = Limits.of(graph, node, first)
    is_close = graph.opened is not None and graph.opened.closer_diagnoses
    analysis = _on_processor(limits) if _has_processor(graph) else _on_device(graph, node, first, limits)
    return NodeDiagnosed(
        verdict=report.verdict,
        fitness=graph.opened.worth(speedup) if graph.opened is not None else speedup.median,
        bottleneck=analysis.named,
        summary=_summary(
            graph.opened is not None and graph.opened.cautious,
            graph.opened is not None and graph.opened.trusts_finalists,
            timing.largest_load,
            speedup,
            against,
            ordinary,
            ordinary_against if is_close and ordinary_against != against else "",
            analysis,
            roofline.fraction if roofline and not (is_close and roofline.fraction > 1.0) else None,
            shapes,
            on_processor=_has_processor(graph),
            names_worst=graph.opened is not None and graph.opened.names_worst_shapes,
        ),
        speedup=speedup,
        against=against,
        ordinary=ordinary,
        ordinary_against=ordinary_against,
        ordinary_missing=report.ordinary_missing,
        broken_contract=_broken_contract(graph, report),
        shapes=shapes,
        absent=timing.absent,
        pending=timing.pending,
        speedups=_against_all(graph, timing),
        roofline_fraction=roofline.fraction if roofline else None,
        evidence=(*analysis.findings, *evidence.of_load(timing), *evidence.of_family(graph, node, speedup, timing)),
        advice=analysis.advice,
        confirmation=confirmation,
    )


def _against_all(graph: SearchGraph, timing: Timing) -> dict[str, float]:
    """The medians against all baselines, where somebody was timed while more of them were pending."""
    diagnoses = (node.confirmation_diagnosis or node.diagnosis for node in graph.own())
    has_joined = any(diagnosis and set(diagnosis.pending) > set(timing.pending) for diagnosis in diagnoses)
    return {name: speedup.median for name, speedup in timing.speedup.items()} if has_joined else {}


def _by_shape(report: ProfileReport, baseline: str) -> tuple[ShapeSpeedup, ...]:
    """The speedups at every timed shape; none where one is timed."""
    usual = {shape.shape: shape for shape in report.ordinary.shapes} if report.ordinary is not None else {}
    return tuple(
        ShapeSpeedup(
            shape=shape.shape,
            weight=shape.weight,
            speedup=shape.counted(baseline),
            against=shape.timing.baseline(baseline),
            ordinary=usual[shape.shape].counted(baseline) if shape.shape in usual else None,
            ordinary_against=usual[shape.shape].timing.baseline(baseline) if shape.shape in usual else "",
        )
        for shape in (report.timing.shapes if report.timing is not None else ())
    )


def _has_processor(graph: SearchGraph) -> bool:
    return graph.opened is not None and graph.opened.is_on_processor


def _broken_contract(graph: SearchGraph, report: ProfileReport) -> str:
    """Where ordinary processes count, :attr:`ProfileReport.ordinary_missing` says it."""
    if graph.opened is None or not graph.opened.counts_device_alone:
        return ""
    broken = next((check for check in report.contract if check.is_essential and not check.ok), None)
    return f"the finished file is no drop-in ({broken.name}): {broken.detail}" if broken else ""


def _on_processor(limits: Limits) -> _Limit:
    named = bottleneck(limits)
    return _Limit(named, "", tuple(evidence.of_limits(limits)), tuple(advise(limits, named)))


def _on_device(graph: SearchGraph, node: str, report: ProfileReport, limits: Limits) -> _Limit:
    seen = DeviceLimits.of(graph, node, report, limits)
    named = accelerator.bottleneck(seen)
    findings = (*evidence.of_limits(limits), *accelerator_findings.of_device(seen))
    return _Limit(named, accelerator.in_short(seen, named), findings, tuple(accelerator_advice.advise(seen, named)))


def _summary(
    cautious: bool,
    brief: bool,
    load: float,
    speedup: Interval,
    against: str,
    ordinary: Interval | None,
    other: str,
    analysis: _Limit,
    fraction: float | None,
    shapes: tuple[ShapeSpeedup, ...],
    *,
    on_processor: bool,
    names_worst: bool,
) -> str:
    def ratio(interval: Interval) -> str:
        if brief:
            return interval.ratio_in_words
        return interval.brief if cautious else f"{interval.median:.2f}x"

    share = f", {fraction:.0%} of the roofline" if fraction is not None else ""
    beside = ""
    if ordinary is not None:
        usual = ratio(ordinary) + (f" against {BASELINE_NAMES.get(other, other)}" if other else "")
        beside = f", {usual} in ordinary processes" if on_processor else f" on the device, {usual} as a call"
    worst = min(shapes, key=lambda shape: shape.speedup.median, default=None)
    by = (" by the judge" if on_processor else " on the device") if names_worst and ordinary is not None else ""
    least = f" ({ratio(worst.speedup)} at shape {worst.shape}, the worst of {len(shapes)}{by})" if worst else ""
    if cautious and speedup.is_noise and load >= LEAST_LOAD:
        least += f" beside a background load of {load:.0%}"
    summary = f"{ratio(speedup)} against {BASELINE_NAMES.get(against, against)}{least}{beside}{share}"
    named = analysis.named.in_words if cautious else analysis.named.replace("_", " ")
    return summary + LIMITED_BY + named + (f" ({analysis.in_short})" if analysis.in_short else "")
