"""From a session's graph to what a backend may know for one plan. Pure: a replay asks for the same of the same log."""

from collections.abc import Mapping
from pathlib import Path

from ...graph.session_graph import NodeRecord, SearchGraph
from ...schemas import AuthorShare, Intent, MemoryOperator, NodePlanned, SessionOpened, Verdict
from .authors import authors_of
from .backend import Attempt, Request, open_backend
from .model import sections
from .model.backend import ModelBackend


def request_of(
    graph: SearchGraph, opened: SessionOpened, node: str, plan: NodePlanned, fresh: Mapping[str, Attempt] | None = None
) -> Request:
    """The request for ``node``.

    Args:
        graph: The session as of ``plan``.
        opened: Its first event.
        node: The node to be made.
        plan: What is planned for it.
        fresh: Attempts by node that are newer than the graph: their files are not to be handed in again.
    """
    # What was tried on other hardware was not tried here.
    here = {name: record for name, record in graph.nodes.items() if record.candidate and not record.elsewhere}
    tried = {**(fresh or {}), **{name: attempt_of(record) for name, record in here.items()}}
    memory = plan.memory
    author = next((a for a in authors_of(opened) if a.name == plan.synthesizer), AuthorShare(name=plan.synthesizer))
    parent, second = graph.nodes.get(plan.parent), graph.nodes.get(plan.second)
    lineage = _latest_measurements([attempt_of(record) for record in graph.lineage(plan.parent)])
    sees_siblings = memory in (MemoryOperator.siblings, MemoryOperator.combine)
    return Request(
        problem=opened.problem,
        facts=opened.facts,
        pool=opened.pool,
        hardware=opened.hardware,
        plan=plan,
        node=node,
        language=opened.language,
        # The parent's own source is what a step starts from, whatever it may remember beyond it.
        lineage=tuple(lineage if memory in (MemoryOperator.inherit, MemoryOperator.combine) else lineage[:1]),
        siblings=tuple(_siblings(graph, parent)) if sees_siblings else (),
        second=attempt_of(second) if second and second.candidate else None,
        tried=tuple(tried[name] for name in sorted(tried)),
        skills=opened.skills,
        model=author.model,
        base_url=author.base_url,
        against=opened.against if opened.heeds_authors else "best",
        given=opened.candidates,
        asks_by_problem=opened.asks_by_problem,
        tells_bandwidths=opened.tells_bandwidths,
        tells_contract=opened.tells_contract,
        grows_with_context=opened.grows_with_context,
    )


def check_room(opened: SessionOpened, home: Path) -> None:
    """Find out before a session opens whether a prompt for each of its authors has room for the problem.

    Raises:
        InputError: one has not; the sentence names the author, the length, the room and the ways out.
    """
    for author in authors_of(opened):
        if isinstance(backend := open_backend(author.name), ModelBackend):
            draft = NodePlanned(
                parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate, synthesizer=author.name
            )
            backend.check_room(request_of(SearchGraph(""), opened, "", draft), home)


def attempt_of(record: NodeRecord) -> Attempt:
    """What is known of a node, as a backend sees it."""
    candidate = record.candidate
    report = record.compile_report
    return Attempt(
        node=record.name,
        source=candidate.source if candidate else "",
        recipe=candidate.recipe if candidate else {},
        rationale=candidate.rationale if candidate else "",
        verdict=_verdict(record),
        fitness=record.fitness,
        too_noisy=record.speedup if record.is_too_noisy else None,
        diagnosis=record.diagnosis,
        diagnostics="\n".join(f"{d.line}:{d.column}: {d.severity}: {d.message}" for d in report.diagnostics)
        if report
        else "",
        counters=_counters(record),
        evidence=_evidence(record),
    )


def _verdict(record: NodeRecord) -> Verdict | None:
    return record.diagnosis.verdict if record.diagnosis else None


def _counters(record: NodeRecord) -> dict[str, float]:
    report = record.profile_report
    return dict(report.counters.values) if report is not None and report.counters is not None else {}


def _evidence(record: NodeRecord) -> str:
    for report in (record.verify_report, record.profile_report):
        if report is not None and report.evidence is not None:
            return sections.evidence(report.evidence)
    return ""


def _latest_measurements(lineage: list[Attempt]) -> list[Attempt]:
    """Without the older of two measurements of one kernel: a fork measures what it goes on from again."""
    pairs = zip(lineage, [None, *lineage], strict=False)
    return [
        attempt for attempt, later in pairs if later is None or not attempt.source or attempt.source != later.source
    ]


def _siblings(graph: SearchGraph, parent: NodeRecord | None) -> list[Attempt]:
    return [attempt_of(child) for child in graph.children(parent.name) if child.candidate] if parent else []
