"""The way to a node: from its root through improvements, repairs, forks and seeds, across sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from ..graph.nodes import NodeRecord
from ..graph.session_graph import SearchGraph
from ..schemas import CandidateProposed, InputError, Interval, Schema, SeedKernel, Verdict
from .recorded_session import RecordedSession

ReadRecorded = Callable[[str], Awaitable[RecordedSession]]
"""Reads a session; InputError if there is none."""


class Step(Schema, frozen=True, kw_only=True):
    """One node on the way."""

    session: str
    node: str
    operation: str
    """``draft``, ``improve``, ``repair``, or ``remeasure``: an existing kernel as it is."""
    through: str = ""
    """How it came from a step in another session: ``fork`` or ``seed``; empty within a session."""
    second: str = ""
    """Second parent, of the same session; empty for none."""
    backend: str = ""
    """Synthesizer that wrote the kernel."""
    changed: tuple[str, ...] = ()
    """What is different from the step before: tunables, or lines of the source."""
    rationale: str = ""
    """Why it should be faster, in the synthesizer's words."""
    verdict: Verdict | None = None
    """None while it is under way."""
    speedup: Interval | None = None
    """Against the best baseline where it was measured; of the confirmation if there was one."""
    against: str = ""
    confirmed: bool = False
    doubts: str = ""
    """What speaks against the speedup where it was timed once; empty if nothing does."""
    bottleneck: str = ""
    diagnosis: str = ""
    """The analyst's sentence."""
    device: str = ""
    """Hardware that it was measured on: speedups of different devices do not compare."""


async def lineage(session: str, node: str, read: ReadRecorded) -> list[Step]:
    """Every step from the root to ``node``, the root first.

    Raises:
        InputError: there is no such session or node.
    """
    path: list[tuple[NodeRecord, SearchGraph]] = []
    graphs: dict[str, SearchGraph] = {}
    place: tuple[str, str] | None = (session, node)
    lost: SeedKernel | None = None
    while place is not None and place not in {(record.session, record.name) for record, _ in path}:
        try:
            record, graph = await _locate(*place, graphs, read)
        except InputError:
            if not path:
                raise
            break  # a seed of a session that this log does not have: what is known of it travels with the search
        path.append((record, graph))
        lost = _seed(record, graph)
        place = _before(record, graph)
    steps = list(_steps(list(reversed(path))))
    return steps if lost is None else [_lost(lost), *steps]


async def _locate(
    session: str, node: str, graphs: dict[str, SearchGraph], read: ReadRecorded
) -> tuple[NodeRecord, SearchGraph]:
    """The node with everything that its own session knows of it."""
    if session not in graphs:
        graphs[session] = await asyncio.to_thread((await read(session)).graph)
    graph = graphs[session]
    record = graph.nodes.get(node)
    if record is None:
        names = list(graph.nodes)
        raise InputError(
            f"session {session} has no node {node!r}" + (f"; there is {names[0]} to {names[-1]}" if names else "")
        )
    if record.session != session:
        return await _locate(record.session, node, graphs, read)
    return record, graph


def _before(record: NodeRecord, graph: SearchGraph) -> tuple[str, str] | None:
    seed = _seed(record, graph)
    if seed is not None:
        return seed.session, seed.node
    parent = graph.nodes.get(record.parent)
    return (parent.session, parent.name) if parent is not None else None


def _seed(record: NodeRecord, graph: SearchGraph) -> SeedKernel | None:
    number = record.plan.seed if record.plan else 0
    kernels = graph.opened.seed_kernels if graph.opened else ()
    return kernels[number - 1] if 0 < number <= len(kernels) else None


def _steps(way: list[tuple[NodeRecord, SearchGraph]]) -> Iterator[Step]:
    before: NodeRecord | None = None
    for record, graph in way:
        diagnosis, plan, candidate = record.confirmation_diagnosis or record.diagnosis, record.plan, record.candidate
        yield Step(
            session=record.session,
            node=record.name,
            operation=str(plan.intent) if plan else "",
            through=_through(record, before, graph),
            second=_second(record),
            backend=candidate.backend if candidate else "",
            changed=tuple(_changes(before.candidate, candidate)) if before and before.candidate and candidate else (),
            rationale=candidate.rationale if candidate else "",
            verdict=diagnosis.verdict if diagnosis else None,
            speedup=diagnosis.speedup if diagnosis else None,
            against=diagnosis.against if diagnosis else "",
            confirmed=record.confirmation_diagnosis is not None,
            doubts=record.doubts,
            bottleneck=str(diagnosis.bottleneck) if diagnosis else "",
            diagnosis=diagnosis.summary if diagnosis else "",
            device=graph.opened.hardware.device if graph.opened else "",
        )
        before = record


def _through(record: NodeRecord, before: NodeRecord | None, graph: SearchGraph) -> str:
    if _seed(record, graph) is not None:
        return "seed"
    return "fork" if before is not None and before.session != record.session else ""


def _second(record: NodeRecord) -> str:
    """The second parent, if anything of it went in."""
    second = record.plan.second if record.plan else ""
    return second if record.candidate and second in record.candidate.parents else ""


def _lost(kernel: SeedKernel) -> Step:
    return Step(
        session=kernel.session,
        node=kernel.node,
        operation="",
        backend=kernel.backend,
        diagnosis=f"{kernel.speedup:.2f}x on {kernel.problem}; its session is not in this log",
    )


def _changes(before: CandidateProposed, after: CandidateProposed) -> Iterator[str]:
    if before.sha256 == after.sha256:
        return
    if before.recipe and after.recipe:
        for tunable in sorted({*before.recipe, *after.recipe}):
            old, new = before.recipe.get(tunable), after.recipe.get(tunable)
            if repr(old) != repr(new):
                yield f"{tunable} {_value(old)} → {_value(new)}"
        return
    old_lines, new_lines = before.source.splitlines(), after.source.splitlines()
    added, removed = set(new_lines) - set(old_lines), set(old_lines) - set(new_lines)
    yield f"{len(added)} lines in, {len(removed)} out"


def _value(value: object) -> str:
    return "unset" if value is None else str(value)
