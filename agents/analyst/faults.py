"""Diagnoses of what does not work: which fault, shown by what, and how to mend it."""

from collections.abc import Iterator

from ...graph.session_graph import SearchGraph
from ...schemas import (
    EQUAL_VALUES,
    OUTSIDE,
    Advice,
    AdviceAction,
    Bottleneck,
    CompilationFailed,
    Diagnostic,
    Evidence,
    Finding,
    NodeDiagnosed,
    ProfilingFailed,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
    user_name,
)


def synthesis(graph: SearchGraph, event: SynthesisFailed) -> NodeDiagnosed:
    """No candidate came."""
    opened = graph.opened
    nobody = event.backend == OUTSIDE and opened is not None and opened.awaits_hand_ins
    # Older sessions called the generator by the name that it has in events.
    author = user_name(event.backend) if opened is not None and opened.trusts_finalists else event.backend
    return NodeDiagnosed(
        verdict=Verdict.synthesis_failed,
        fitness=0.0,
        bottleneck=Bottleneck.fault,
        summary=event.reason if nobody else f"{author} made no candidate: {event.reason}",
        evidence=(Finding(name="backend", value=event.backend, meaning=event.reason),),
        exhausted=event.exhausted,
        retryable=event.retryable and opened is not None and len(opened.authors) > 1,
    )


def compilation(event: CompilationFailed) -> NodeDiagnosed:
    """The compiler refused it; the first errors say why."""
    errors = [d for d in event.report.diagnostics if d.severity == "error"][:3]
    first = _at_line(errors[0]) if errors else (event.report.log.strip().splitlines() or ["no message"])[-1]
    verdict = Verdict.harness_error if event.given_up else Verdict.compile_error
    return NodeDiagnosed(
        verdict=verdict,
        fitness=0.0,
        bottleneck=Bottleneck.fault,
        summary=f"{verdict.replace('_', ' ')}: {first}",
        evidence=tuple(Finding(name="compiler", value=f"line {error.line}", meaning=error.message) for error in errors),
        advice=(Advice(action=AdviceAction.repair, reason=first),),
    )


def _at_line(error: Diagnostic) -> str:
    return f"line {error.line}: {error.message}" if error.line else error.message


def verification(graph: SearchGraph, node: str, event: VerificationFailed) -> NodeDiagnosed:
    """It is wrong, or not honest."""
    evidence = event.report.evidence or Evidence(message=str(event.report.verdict))
    is_close = graph.opened is not None and graph.opened.closer_diagnoses
    way = GRADIENTS if is_close and event.report.verdict is Verdict.wrong_gradients else ""
    return _fault(event.report.verdict, evidence, event.confirmation, way)


def profiling(event: ProfilingFailed) -> NodeDiagnosed:
    """It could not be timed."""
    evidence = event.report.evidence or Evidence(message=str(event.report.verdict))
    return _fault(event.report.verdict, evidence, event.confirmation)


def _fault(verdict: Verdict, evidence: Evidence, confirmation: bool, way: str = "") -> NodeDiagnosed:
    return NodeDiagnosed(
        verdict=verdict,
        fitness=0.0,
        bottleneck=Bottleneck.fault,
        summary=f"{verdict.replace('_', ' ')}: {evidence.message}",
        evidence=tuple(_findings(verdict, evidence)),
        advice=tuple(_mend(verdict, evidence, way)),
        confirmation=confirmation,
    )


def _findings(verdict: Verdict, evidence: Evidence) -> Iterator[Finding]:
    location = f"shape {evidence.shape}" if evidence.shape else "verifier"
    yield Finding(name=str(verdict), value=location, meaning=evidence.message)
    if evidence.expected or evidence.got:
        yield Finding(
            name="element",
            value=f"output {evidence.output} at {list(evidence.element)}",
            meaning=f"{evidence.got}, not {evidence.expected}",
        )


INACCURATE = (Verdict.wrong_numbers, Verdict.wrong_state, Verdict.lower_precision, Verdict.not_deterministic)
"""What more accurate arithmetic may mend."""


GRADIENTS = (
    "compute it all in a torch.autograd.Function with its backward pass, or under torch.no_grad(): without a graph the "
    "finished file leaves gradients to the reference"
)
"""What mends wrong gradients. Parts that keep a graph beside parts that lose it are the usual cause."""


def _mend(verdict: Verdict, evidence: Evidence, way: str) -> Iterator[Advice]:
    if verdict in INACCURATE and not evidence.message.startswith(EQUAL_VALUES):
        yield Advice(action=AdviceAction.more_accurate_math, reason=evidence.message, weight=2.0)
    yield Advice(action=AdviceAction.repair, reason=way or evidence.message)
    yield Advice(action=AdviceAction.simplify, reason=f"the fault is {verdict.replace('_', ' ')}", weight=0.5)
