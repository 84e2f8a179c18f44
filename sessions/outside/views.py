"""From a session's graph to what outside authors are told. Pure; nothing that judges a candidate is shown."""

import time
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ...agents.planner.state import NOISE
from ...agents.synthesizer.contract import contract, what_to_write
from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...graph.tasks import CHECKS, Lease, Task
from ...schemas import (
    InputError,
    NodePlanned,
    SessionOpened,
)
from ..private_inputs import without_seeds
from .records import Finish, Leaderboard, LeaseTerms, NodeAnswer, Place, TaskBrief, TaskRow
from .verdicts import author, is_noise, is_win, node_answer, opened_of, progress, shown_advice, state_of

NUMBERS = (("by the judge", "in ordinary processes"), ("on the device", "as a call"))
"""What the two speedups are called: of a processor, of an accelerator."""

SOURCE_CHARACTERS = 4000
"""Of a parent's source that a brief has: longer ones are asked for by those who want them."""


def task_of(graph: SearchGraph, node: str) -> Task:
    """The task ``node``.

    Raises:
        InputError: the session has none of that name.
    """
    if node not in graph.tasks.tasks:
        names = ", ".join(graph.tasks.tasks) or "none"
        raise InputError(f"session {graph.session} has no task {node!r}; it has {names}")
    return graph.tasks.tasks[node]


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
    parent, second = (node_answer(graph, name, source=True) if name in graph.nodes else None for name in _parents(plan))
    return TaskBrief(
        task=f"{graph.session}/{node}",
        state=state_of(graph, task),
        lease=terms(task.holder) if task.holder else None,
        intent=plan.intent,
        write=what_to_write(facts),
        contract=contract(opened.problem, facts),
        notes=(*_notes(graph), *_note_on_best(graph, plan), *_notes_on_sources(parent, second)),
        languages=opened.pool.languages,
        problem=opened.problem.name,
        reference=opened.problem.source,
        shapes=facts.shapes,
        error_bound=facts.error_bound,
        pool=opened.pool.name,
        hardware=opened.hardware,
        baselines_ms=dict(measured.report.median_ms) if measured else {},
        baseline_statuses=measured.report.statuses if measured else (),
        floor_ms=_floor_ms(graph),
        against=opened.against,
        parent=_without_long_source(parent),
        second=_without_long_source(second),
        tried=tuple(_places(graph, _ranked(graph, graph.nodes.values()))),
        advice=shown_advice(plan.advice),
        skills=tuple(skill.text for skill in opened.skills),
    )


def _parents(plan: NodePlanned) -> tuple[str, str]:
    return plan.parent, plan.second


def _floor_ms(graph: SearchGraph) -> float | None:
    """The roofline's floor; none that a candidate was faster than."""
    fractions = [node.diagnosis.roofline_fraction or 0.0 for node in graph.nodes.values() if node.diagnosis]
    is_passed = max(fractions, default=0.0) > 1.0
    return graph.baselines.report.roofline.floor_ms if graph.baselines and not is_passed else None


def _without_long_source(answer: NodeAnswer | None) -> NodeAnswer | None:
    is_long = answer is not None and len(answer.source) > SOURCE_CHARACTERS
    return replace(answer, source="") if answer is not None and is_long else answer


def _notes(graph: SearchGraph) -> Iterator[str]:
    if graph.baselines is None:
        yield (
            "the baselines are not timed yet: begin all the same; this task shows their times once they are there, and "
            "verdicts have them"
        )


def _note_on_best(graph: SearchGraph, plan: NodePlanned) -> Iterator[str]:
    """A plan is as old as its task: what was judged since may be better than its parents."""
    best, parents = graph.best(), [graph.nodes[name] for name in _parents(plan) if name in graph.nodes]
    if best is not None and best.fitness > max((parent.fitness for parent in parents), default=0.0) * NOISE:
        speedup = node_answer(graph, best.name).speedup
        speed = f", {speedup.in_words}" if speedup is not None else ""
        task = f"{graph.session}/{best.name}"
        yield (
            f"the best kernel by now is {task} by {author(graph, best)}{speed}: start from that if it helps; "
            f"`kernelswarm tasks show {task} --json` has its source"
        )


def _notes_on_sources(*answers: NodeAnswer | None) -> Iterator[str]:
    for answer in answers:
        if answer is not None and len(answer.source) > SOURCE_CHARACTERS:
            size = f"the source of {answer.task} has {len(answer.source):,} characters"
            yield f"{size}; `kernelswarm tasks show {answer.task} --json` has it"


def leaderboard(graph: SearchGraph) -> Leaderboard:
    """The session's candidates, best first; those of one rank in order of planning."""
    opened, closed = opened_of(graph), graph.closed
    ranked, is_on_processor = _ranked(graph, graph.own()), opened.is_on_processor
    return Leaderboard(
        session=graph.session,
        problem=opened.problem.name,
        pool=opened.pool.name,
        state="closed" if closed else "open",
        detail=without_seeds(closed.detail) if closed else "",
        best=_best(graph),
        speedup=closed.by_judge if closed else None,
        ordinary_speedup=closed.speedup if closed and closed.judged and is_on_processor else None,
        call_speedup=closed.call if closed else None,
        numbers=NUMBERS[0 if is_on_processor else 1],
        withdrawn=_withdrawn(graph),
        places=tuple(_places(graph, ranked)),
        judged=len(ranked),
        budget=opened.budget,
    )


def _best(graph: SearchGraph) -> str:
    if graph.closed is not None:
        return graph.closed.best
    return record.name if (record := graph.best()) else ""


def _ranked(graph: SearchGraph, records: Iterable[NodeRecord]) -> list[NodeRecord]:
    """Those that were judged, best first."""
    best, judged = _best(graph), [record for record in records if record.diagnosis and record.candidate]
    return sorted(judged, key=lambda record: (record.name != best, -record.fitness))


def _withdrawn(graph: SearchGraph) -> tuple[str, ...]:
    return tuple(f"{graph.session}/{node}" for node in graph.tasks.withdrawn)


def finish(graph: SearchGraph) -> Finish:
    """How far a session is that was asked to end."""
    closed, held = graph.closed, tuple(lease.id for lease in graph.tasks.held()) if graph.closed is None else ()
    judging = tuple(f"{graph.session}/{node.name}" for node in graph.own() if progress(graph, node) == "judging")
    waits = [f"{', '.join(judging)} is judged"] * bool(judging)
    if held:
        waits.append(f"what is held may come (where nothing does: `kernelswarm tasks release {' '.join(held)}`)")
    waits.append("the best candidates are confirmed")
    way = f"`kernelswarm tasks finish {graph.session} --wait 300` waits for the end"
    so_far = f"not ended yet: {', then '.join(waits)}. {way}"
    return Finish(
        session=graph.session,
        state="closed" if closed else "open",
        held=held,
        judging=judging,
        best=closed.best if closed else "",
        win=closed is not None and closed.win,
        withdrawn=_withdrawn(graph),
        detail=without_seeds(closed.detail) if closed else so_far,
    )


def _places(graph: SearchGraph, ranked: Sequence[NodeRecord]) -> list[Place]:
    places, is_on_processor = [], opened_of(graph).is_on_processor
    for rank, record in enumerate(ranked, 1):
        diagnosis = record.confirmation_diagnosis or record.diagnosis
        assert diagnosis is not None
        places.append(
            Place(
                rank=rank,
                task=f"{graph.session}/{record.name}",
                author=author(graph, record),
                verdict=diagnosis.verdict,
                win=is_win(graph, record),
                speedup=diagnosis.speedup,
                noisy=is_noise(diagnosis.speedup),
                doubts=record.doubts,
                ordinary_speedup=diagnosis.ordinary if is_on_processor else None,
                call_speedup=None if is_on_processor else diagnosis.ordinary,
                confirmed=record.confirmation_diagnosis is not None,
                summary=without_seeds(diagnosis.summary),
            )
        )
    return places
