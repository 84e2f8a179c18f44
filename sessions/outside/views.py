"""From a session's graph to what outside authors are told. Pure; nothing that judges a candidate is shown."""

import re
import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ...agents.synthesizer.authors import user_name
from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...graph.tasks import CHECKS, Lease, Task
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
)
from ..private_inputs import without_seed, without_seeds
from .records import CheckAnswer, Finish, Leaderboard, LeaseTerms, NodeAnswer, Place, TaskBrief, TaskRow

_INDEX_TYPES = ("int64", "int32")
_ORDERING = re.compile(r"\b(?:sort|topk|argsort|argmax|argmin|max|min|kthvalue|median|mode|msort)\b")
"""ATen operators that choose among equal values."""

NUMBERS = (("by the judge", "in ordinary processes"), ("on the device", "as a call"))
"""What the two speedups are called: of a processor, of an accelerator."""

_WITHOUT_VERDICT = {
    "withdrawn": "nobody handed in a file for this task",
    "not judged": "the session ended before this was judged; a file that was handed in is kept in the log",
}
"""What is said of a node by its state."""

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


def task_of(graph: SearchGraph, node: str) -> Task:
    """The task ``node``.

    Raises:
        InputError: the session has none of that name.
    """
    if node not in graph.tasks.tasks:
        names = ", ".join(graph.tasks.tasks) or "none"
        raise InputError(f"session {graph.session} has no task {node!r}; it has {names}")
    return graph.tasks.tasks[node]


def state_of(graph: SearchGraph, task: Task) -> str:
    """One of the states of :class:`TaskRow`; what was open when its session closed is withdrawn."""
    if graph.closed is not None and not task.outcome:
        return "withdrawn"
    return task.outcome or ("free" if task.is_free else "held")


def rows(graph: SearchGraph) -> list[TaskRow]:
    """The session's tasks in order of planning."""
    opened = opened_of(graph)
    return [_row(graph, opened, task) for task in graph.tasks.tasks.values()]


def _row(graph: SearchGraph, opened: SessionOpened, task: Task) -> TaskRow:
    holder, node = task.holder, graph.nodes.get(task.node)
    diagnosis = node.diagnosis if node and node.candidate else None
    return TaskRow(
        task=f"{graph.session}/{task.node}",
        problem=opened.problem.name,
        pool=opened.pool.name,
        languages=opened.pool.languages,
        intent=task.plan.intent,
        parent=task.plan.parent,
        state=state_of(graph, task),
        agent=holder.agent if holder else task.author,
        lease=holder.id if holder else "",
        minutes_left=minutes_left(holder) if holder else None,
        verdict=diagnosis.verdict if diagnosis else None,
        speedup=diagnosis.speedup.median if diagnosis and diagnosis.speedup else None,
        noisy=is_noise(diagnosis.speedup if diagnosis else None),
    )


def minutes_left(lease: Lease) -> float:
    """Until it expires; 0 if it should have by now."""
    return round(max(0.0, (lease.expires_ns - time.time_ns()) / 60e9), 1)


def terms(lease: Lease) -> LeaseTerms:
    """Of a lease that is held."""
    return LeaseTerms(
        lease=lease.id, agent=lease.agent, minutes_left=minutes_left(lease), checks_left=CHECKS - lease.checks
    )


def brief(graph: SearchGraph, node: str) -> TaskBrief:
    """Everything that an author of the task ``node`` needs.

    Raises:
        InputError: there is no such task.
    """
    opened, task = opened_of(graph), task_of(graph, node)
    facts, measured, plan = opened.facts, graph.baselines, task.plan
    best = graph.best()
    return TaskBrief(
        task=f"{graph.session}/{node}",
        state=state_of(graph, task),
        lease=terms(task.holder) if task.holder else None,
        intent=plan.intent,
        write=what_to_write(opened),
        notes=tuple(_notes(graph, opened)),
        languages=opened.pool.languages,
        problem=opened.problem.name,
        reference=opened.problem.source,
        shapes=facts.shapes,
        error_bound=facts.error_bound,
        pool=opened.pool.name,
        hardware=opened.hardware,
        baselines_ms=dict(measured.report.median_ms) if measured else {},
        baseline_statuses=measured.report.statuses if measured else (),
        floor_ms=measured.report.roofline.floor_ms if measured else None,
        against=opened.against,
        parent=node_answer(graph, plan.parent, source=True) if plan.parent in graph.nodes else None,
        second=node_answer(graph, plan.second, source=True) if plan.second in graph.nodes else None,
        best=node_answer(graph, best.name, source=best.name != plan.parent) if best else None,
        tried=tuple(
            node_answer(graph, name) for name, record in graph.nodes.items() if record.diagnosis and record.candidate
        ),
        advice=_advice(plan.advice),
        skills=tuple(skill.text for skill in opened.skills),
    )


def what_to_write(opened: SessionOpened) -> str:
    """What a candidate file must define, in a sentence."""
    parameters = ", ".join(opened.facts.signature)
    if opened.facts.is_module:
        return f"class ModelNew(nn.Module): Model's constructor and parameter names, forward(self, {parameters})"
    return f"def kernel({parameters}): the parameters and answers of `reference`"


def _notes(graph: SearchGraph, opened: SessionOpened) -> Iterator[str]:
    if graph.baselines is None:
        yield (
            "the baselines are not timed yet: begin all the same; this task shows their times once they are there, and "
            "verdicts have them"
        )
    outputs = [fact for shape in opened.facts.shapes[:1] for fact in shape.outputs]
    if any(fact.dtype in _INDEX_TYPES for fact in outputs) and _ORDERING.search(" ".join(opened.facts.operators)):
        yield (
            "the answer has indices: of equal values those count that the reference chooses, another order is wrong; "
            "judged inputs have ties also where small ones have none"
        )


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
    state = _progress(graph, record)
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
        faster=_is_faster(graph, diagnosis),
        win=_is_win(graph, record),
        summary=without_seeds(diagnosis.summary) if diagnosis else _WITHOUT_VERDICT.get(state, ""),
        speedup=diagnosis.speedup if diagnosis else None,
        noisy=is_noise(diagnosis.speedup if diagnosis else None),
        against=diagnosis.against if diagnosis else "",
        ordinary=diagnosis.ordinary if diagnosis else None,
        ordinary_against=diagnosis.ordinary_against if diagnosis else "",
        times_ms=dict(timing.median_ms) if timing else {},
        roofline_fraction=diagnosis.roofline_fraction if diagnosis else None,
        bottleneck=diagnosis.bottleneck if diagnosis else "",
        findings=_findings(diagnosis.evidence) if diagnosis else (),
        advice=_advice(diagnosis.advice) if diagnosis else (),
        evidence=_evidence(record),
        diagnostics=compiled.diagnostics if compiled else (),
        log=compiled.log[-LOG_CHARACTERS:] if compiled and not compiled.ok else "",
        kernels=compiled.kernels if compiled else (),
        declined=tuple(map(without_seeds, record.verify_report.declined)) if record.verify_report else (),
        confirmed=record.confirmation_diagnosis is not None,
        rationale=candidate.rationale if candidate else "",
        source=candidate.source if candidate and source else "",
    )


def _findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(
        replace(finding, value=without_seeds(finding.value), meaning=without_seeds(finding.meaning))
        for finding in findings
    )


def _advice(advice: Sequence[Advice]) -> tuple[Advice, ...]:
    return tuple(replace(item, reason=without_seeds(item.reason)) for item in advice)


def _progress(graph: SearchGraph, record: NodeRecord) -> str:
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


def _is_win(graph: SearchGraph, record: NodeRecord) -> bool:
    """Whether the session counts it as a win, by the rule of its close: of its best the close itself says so."""
    if graph.closed is not None and graph.closed.best == record.name:
        return graph.closed.win
    confirmed = record.confirmation_diagnosis
    # Older sessions went by the first timing where nothing was timed again.
    counted = confirmed or (record.diagnosis if opened_of(graph).confirmations <= 1 else None)
    return _is_faster(graph, counted)


def _is_faster(graph: SearchGraph, diagnosis: NodeDiagnosed | None) -> bool:
    """Whether the intervals that count lie above 1, as far as they were measured, and nothing stands against it."""
    if diagnosis is None or diagnosis.speedup is None or diagnosis.broken_contract:
        return False
    if opened_of(graph).counts_device_alone:
        return diagnosis.speedup.is_win
    counted = (diagnosis.speedup, diagnosis.ordinary or diagnosis.speedup)
    return not diagnosis.ordinary_missing and all(speedup.is_win for speedup in counted)


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


def leaderboard(graph: SearchGraph) -> Leaderboard:
    """The session's candidates, best first; those of one rank in order of planning."""
    opened, closed = opened_of(graph), graph.closed
    judged = [record for record in graph.own() if record.diagnosis and record.candidate]
    best = closed.best if closed else (record.name if (record := graph.best()) else "")
    ranked = sorted(judged, key=lambda record: (record.name != best, -record.fitness))
    return Leaderboard(
        session=graph.session,
        problem=opened.problem.name,
        pool=opened.pool.name,
        state="closed" if closed else "open",
        detail=closed.detail if closed else "",
        best=best,
        speedup=closed.speedup if closed else None,
        numbers=NUMBERS[0 if opened.is_on_processor else 1],
        withdrawn=_withdrawn(graph),
        places=tuple(_places(graph, ranked)),
        judged=len(judged),
        budget=opened.budget,
    )


def _withdrawn(graph: SearchGraph) -> tuple[str, ...]:
    return tuple(f"{graph.session}/{node}" for node in graph.tasks.withdrawn)


def finish(graph: SearchGraph) -> Finish:
    """How far a session is that was asked to end."""
    closed, held = graph.closed, tuple(lease.id for lease in graph.tasks.held()) if graph.closed is None else ()
    judging = tuple(f"{graph.session}/{node.name}" for node in graph.own() if _progress(graph, node) == "judging")
    waits = [f"{', '.join(judging)} is judged"] * bool(judging)
    if held:
        waits.append(f"what is held may come (where nothing does: `kernelswarm tasks release {' '.join(held)}`)")
    waits.append("the best candidates are confirmed")
    return Finish(
        session=graph.session,
        state="closed" if closed else "open",
        held=held,
        judging=judging,
        best=closed.best if closed else "",
        win=closed is not None and closed.win,
        withdrawn=_withdrawn(graph),
        detail=closed.detail
        if closed
        else f"not ended yet: {', then '.join(waits)}. `kernelswarm tasks finish {graph.session} --wait 300` waits",
    )


def _places(graph: SearchGraph, ranked: Sequence[NodeRecord]) -> list[Place]:
    places = []
    for rank, record in enumerate(ranked, 1):
        diagnosis = record.confirmation_diagnosis or record.diagnosis
        assert diagnosis is not None
        places.append(
            Place(
                rank=rank,
                task=f"{graph.session}/{record.name}",
                author=author(graph, record),
                verdict=diagnosis.verdict,
                win=_is_win(graph, record),
                speedup=diagnosis.speedup,
                noisy=is_noise(diagnosis.speedup),
                ordinary=diagnosis.ordinary,
                confirmed=record.confirmation_diagnosis is not None,
                summary=without_seeds(diagnosis.summary),
            )
        )
    return places
