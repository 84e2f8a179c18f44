"""What is known of candidates: verdicts, wins, checks. Pure; nothing that judges a candidate is shown."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...graph.tasks import CHECKS, Task
from ...schemas import (
    Advice,
    CandidateChecked,
    Evidence,
    Finding,
    InputError,
    Interval,
    NodeDiagnosed,
    SessionOpened,
    Verdict,
    user_name,
)
from ..private_inputs import without_seed, without_seeds
from .records import CheckAnswer, NodeAnswer

_ENDS = {"minutes": "its minutes were over", "interrupted": "it was interrupted"}
"""How a session ends that still judges files."""

LOG_CHARACTERS = 4000
"""Of a compiler's output that an author gets."""


def opened_of(graph: SearchGraph) -> SessionOpened:
    """The session's first event.

    Raises:
        InputError: the bus has it no more.
    """
    if graph.opened is None:
        raise InputError(f"there is no open session {graph.session!r}: `kernelswarm tasks list` shows what there is")
    return graph.opened


def state_of(graph: SearchGraph, task: Task) -> str:
    """One of the states of :class:`TaskRow`; what was open when its session closed is withdrawn."""
    if graph.closed is not None and not task.outcome:
        return "withdrawn"
    return task.outcome or ("free" if task.is_free else "held")


def known_node(graph: SearchGraph, name: str) -> NodeAnswer:
    """What is known of a node, source included.

    Raises:
        InputError: the session has none of that name.
    """
    if name not in graph.nodes:
        names = list(graph.nodes)
        there = f"there is {names[0]} to {names[-1]}" if names else "it has none"
        raise InputError(f"session {graph.session} has no node {name!r}; {there}")
    return node_answer(graph, name, source=True)


def node_answer(graph: SearchGraph, name: str, *, source: bool = False) -> NodeAnswer:
    """What is known of a node, with its ``source`` or without."""
    record = graph.nodes.get(name, NodeRecord(name))
    state = progress(graph, record)
    diagnosis = None if state == "withdrawn" else record.confirmation_diagnosis or record.diagnosis
    profile = record.confirmation or record.profile_report
    timing = profile.timing if profile else None
    compiled, candidate = record.compile_report, record.candidate
    return NodeAnswer(
        task=f"{graph.session}/{name}",
        state=state,
        author=author(graph, record),
        verdict=diagnosis.verdict if diagnosis else None,
        correct=diagnosis is not None and diagnosis.verdict is Verdict.correct,
        # A win was timed again as a finalist; of one short run so wide an interval is no finding.
        faster=(win := is_win(graph, record)) or (_is_faster(graph, diagnosis) and not _is_vague(diagnosis)),
        win=win,
        summary=without_seeds(diagnosis.summary) if diagnosis else _without_verdict(graph, state),
        speedup=diagnosis.speedup if diagnosis else None,
        noisy=is_noise(diagnosis.speedup if diagnosis else None),
        doubts=record.doubts if diagnosis else "",
        against=diagnosis.against if diagnosis else "",
        **_beside(graph, diagnosis),
        times_ms=dict(timing.median_ms) if timing else {},
        timed_shapes=max(1, len(timing.shapes)) if timing else 1,
        roofline_fraction=diagnosis.roofline_fraction if diagnosis else None,
        bottleneck=diagnosis.bottleneck if diagnosis else "",
        findings=_findings(diagnosis.evidence) if diagnosis else (),
        advice=shown_advice(diagnosis.advice) if diagnosis else (),
        evidence=_evidence(record),
        diagnostics=compiled.diagnostics if compiled else (),
        log=compiled.log[-LOG_CHARACTERS:] if compiled and not compiled.ok else "",
        kernels=compiled.kernels if compiled else (),
        declined=tuple(map(without_seeds, record.verify_report.declined)) if record.verify_report else (),
        confirmed=record.confirmation_diagnosis is not None,
        rationale=candidate.rationale if candidate else "",
        source=candidate.source if candidate and source else "",
    )


def _beside(graph: SearchGraph, diagnosis: NodeDiagnosed | None) -> dict[str, Any]:
    """What ordinary processes say, by the name that it has on the session's hardware."""
    if diagnosis is None:
        return {}
    name = "ordinary" if opened_of(graph).is_on_processor else "call"
    return {f"{name}_speedup": diagnosis.ordinary, f"{name}_against": diagnosis.ordinary_against}


def _without_verdict(graph: SearchGraph, state: str) -> str:
    """Why there is no verdict, if there will be none."""
    if state == "withdrawn":
        return "nobody handed in a file for this task"
    if state != "not judged" or graph.closed is None:
        return ""
    why = _ENDS.get(graph.closed.reason, graph.closed.reason.replace("_", " "))
    return f"the session ended ({why}) before this was judged; a file that was handed in is kept in the log"


def _findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(
        replace(finding, value=without_seeds(finding.value), meaning=without_seeds(finding.meaning))
        for finding in findings
    )


def shown_advice(advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """``advice`` without seeds."""
    return tuple(replace(item, reason=without_seeds(item.reason)) for item in advice)


def progress(graph: SearchGraph, record: NodeRecord) -> str:
    """One of the states of :class:`NodeAnswer`."""
    if record.name in graph.tasks.tasks and state_of(graph, graph.tasks.tasks[record.name]) == "withdrawn":
        return "withdrawn"
    if record.synthesis_failure:
        return "failed"
    if record.diagnosis:
        return "judged"
    if graph.closed is not None:
        return "not judged"
    return "judging" if record.candidate else "waiting"


def is_win(graph: SearchGraph, record: NodeRecord) -> bool:
    """Whether the session counts it as a win, by the rule of its close: of its best the close itself says so."""
    if graph.closed is not None and graph.closed.best == record.name:
        return graph.closed.win
    confirmed = record.confirmation_diagnosis
    # Older sessions went by the first timing where nothing was timed again.
    opened = opened_of(graph)
    by_first = opened.confirmations <= 1 and not opened.trusts_finalists
    counted = confirmed or (record.diagnosis if by_first else None)
    return _is_faster(graph, counted)


def _is_faster(graph: SearchGraph, diagnosis: NodeDiagnosed | None) -> bool:
    """Whether the intervals that count lie above 1, as far as they were measured, and nothing stands against it."""
    if diagnosis is None or diagnosis.speedup is None or diagnosis.broken_contract:
        return False
    if opened_of(graph).counts_device_alone:
        return diagnosis.speedup.is_win
    counted = (diagnosis.speedup, diagnosis.ordinary or diagnosis.speedup)
    return not diagnosis.ordinary_missing and all(speedup.is_win for speedup in counted)


def _is_vague(diagnosis: NodeDiagnosed | None) -> bool:
    """Whether the ends of its speedup are too far apart for one run to tell."""
    return diagnosis is not None and diagnosis.speedup is not None and diagnosis.speedup.is_vague


def is_noise(speedup: Interval | None) -> bool:
    """Whether it is too noisy to tell."""
    return speedup is not None and speedup.is_noise


def author(graph: SearchGraph, record: NodeRecord) -> str:
    """Who wrote a node's candidate: an outside author's name, else the author that the session names."""
    task = graph.tasks.tasks.get(record.name)
    return (task.author if task else "") or (user_name(record.candidate.backend) if record.candidate else "")


def _evidence(record: NodeRecord) -> Evidence | None:
    reports = (record.confirmation, record.profile_report, record.verify_report)
    shown = [report.evidence for report in reports if report is not None and report.evidence is not None]
    return without_seed(shown[0]) if shown else None


def check_answer(graph: SearchGraph, lease: str, checked: CandidateChecked) -> CheckAnswer:
    """What a check came to."""
    compiled, verified = checked.compiled, checked.verified
    verdict = verified.verdict if verified else Verdict.compile_error
    held = graph.tasks.lease(lease)
    evidence = without_seed(verified.evidence) if verified and verified.evidence else None
    return CheckAnswer(
        lease=lease,
        correct=verdict is Verdict.correct,
        verdict=verdict,
        summary=_check_summary(checked, evidence),
        evidence=evidence,
        diagnostics=compiled.diagnostics,
        log="" if compiled.ok else compiled.log[-LOG_CHARACTERS:],
        kernels=compiled.kernels,
        checks_left=CHECKS - held.checks if held else 0,
    )


def _check_summary(checked: CandidateChecked, evidence: Evidence | None) -> str:
    if evidence is not None:
        return evidence.message
    if checked.verified is not None:
        return "it compiles, and is right on small inputs"
    errors = [message.message for message in checked.compiled.diagnostics if message.severity == "error"]
    return next(iter(errors), "") or next(iter(checked.compiled.log.splitlines()), "it does not compile")
