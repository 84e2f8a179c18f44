"""What outside authors look up: documents on the chip, and what the log knows of like operators."""

from pathlib import Path
from typing import Final, Literal

from ...bus import Bus
from ...graph.session_graph import SearchGraph
from ...knowledge import Library, open_library
from ...schemas import KnowledgeRetrieved, Schema
from ...store.question_library import ask
from .verdicts import author, node_answer, opened_of

HITS = 6
"""Documents that one search returns."""

THIS_SESSION: Final = "this_session"
"""The question that one session answers."""

Question = Literal["this_session", "tried_on_operator", "gains_by_advice", "gains_by_diagnosis", "why_candidates_fail"]
"""Questions to the log that help to choose what to try."""


class DocumentHit(Schema, frozen=True, kw_only=True):
    """A document that matches."""

    path: str
    """What ``read_document`` takes."""
    title: str
    reasons: tuple[str, ...]


class HistoryTable(Schema, frozen=True, kw_only=True):
    """The log's answer to a question."""

    title: str
    meaning: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def library_of(graph: SearchGraph, home: Path) -> Library:
    """The documents on the session's pool: the shipped ones, and the manuals of ``home``."""
    opened = opened_of(graph)
    return open_library(opened.pool, opened.hardware.isa, home)


def search_knowledge(
    graph: SearchGraph, library: Library, node: str, words: str
) -> tuple[list[DocumentHit], KnowledgeRetrieved]:
    """The documents that answer ``words`` best for the task ``node``, and the event that records it."""
    opened = opened_of(graph)
    plan = graph.nodes[node].plan if node in graph.nodes else None
    query = library.query(
        language=opened.language, facts=opened.facts, words=(words,), intent=plan.intent if plan else None
    )
    hits = library.search(query, limit=HITS)
    shown = [DocumentHit(path=hit.document.path, title=hit.document.title, reasons=hit.reasons) for hit in hits]
    return shown, library.retrieved("outside", query, hits, with_text=False)


def tried_in(graph: SearchGraph) -> HistoryTable:
    """What was tried in one session, in order of planning: whose idea it was, what it started from, what came of it."""
    judged = [record for record in graph.nodes.values() if record.diagnosis and record.candidate]
    answers = [(record, node_answer(graph, record.name)) for record in judged]
    return HistoryTable(
        title=f"What was tried in {graph.session}?",
        meaning="A node stands below its parent, which it was made from. speedup is by the judge.",
        columns=("node", "parent", "author", "verdict", "speedup", "idea", "summary"),
        rows=tuple(
            (
                *(record.name, record.parent, author(graph, record), answer.verdict),
                *(answer.speedup.median if answer.speedup else None, answer.rationale, answer.summary),
            )
            for record, answer in answers
        ),
    )


async def history(bus: Bus, home: Path, name: Question, operator: str = "") -> HistoryTable:
    """Ask the log of all sessions; ``operator`` is a word of an ATen operator, for ``tried_on_operator``.

    Raises:
        StoreError: there is no log, or it does not answer.
    """
    asked, table = await ask(home, name, {"operator": operator}, bus=bus)
    rows = tuple(tuple(row) for row in table.rows)
    return HistoryTable(title=asked.title, meaning=asked.meaning, columns=tuple(table.columns), rows=rows)
