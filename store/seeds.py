"""What a new search may be seeded from: the problems that were searched, and the kernels that won on them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..schemas import Config, ProblemFacts, Schema
from .query import run_sql

if TYPE_CHECKING:
    from ..bus import Bus

MOST_PROBLEMS = 500
"""Problems that are compared with the new one, the latest."""

MOST_SESSIONS = 50
"""Sessions of one problem that are told, the latest; more if more are named."""

PER_SESSION = 16
"""Winners of a session that are looked at, the fastest."""

_PROBLEMS = """
    SELECT problem, sha256, platform, arg_max(facts, seq) AS facts, list(session ORDER BY seq DESC)[:?] AS sessions
    FROM (SELECT seq, session, body->>'$.problem.name' AS problem, body->>'$.problem.sha256' AS sha256,
            body->>'$.pool.platform' AS platform, body->>'$.facts' AS facts
        FROM events WHERE tag = 'session.opened.v1' {where} ORDER BY seq DESC LIMIT 5000)
    GROUP BY ALL ORDER BY max(seq) DESC LIMIT ? OFFSET ?
"""

_WINNERS = """
    SELECT nodes.session, nodes.node, nodes.speedup, nodes.speedup_low AS low, nodes.confirmed,
        nodes.bottleneck, candidates.source, candidates.sha256, candidates.language, candidates.backend,
        candidates.recipe
    FROM nodes JOIN candidates USING (session, node)
    WHERE nodes.session = ? AND nodes.verdict = 'correct' AND nodes.speedup_low > 1
    QUALIFY row_number() OVER (PARTITION BY candidates.sha256 ORDER BY nodes.confirmed DESC, low DESC, nodes.node) = 1
    ORDER BY nodes.confirmed DESC, low DESC, nodes.node LIMIT ?
"""

_PAGE = 25


class SearchedProblem(Schema, frozen=True, kw_only=True):
    """A problem that was searched on a platform."""

    problem: str
    sha256: str
    platform: str
    facts: ProblemFacts
    sessions: tuple[str, ...]
    """The latest first."""


class WinnerRow(Schema, frozen=True, kw_only=True):
    """A correct kernel whose interval lies above 1."""

    session: str
    node: str
    branch: str
    """The node without a parent in the session that it descends from."""
    speedup: float
    low: float
    confirmed: bool
    """Whether it was timed once more, longer."""
    bottleneck: str | None
    source: str
    sha256: str
    language: str
    backend: str
    recipe: Config


async def searched_problems(
    home: Path, sessions: Sequence[str] = (), *, bus: "Bus | None" = None
) -> list[SearchedProblem]:
    """The problems of ``sessions``, or of all of them; the latest first. Errors: :func:`run_sql`."""
    where = "AND session IN (SELECT unnest(?))" if sessions else ""
    given: list[Any] = [max(MOST_SESSIONS, len(sessions)), *([list(sessions)] if sessions else [])]
    problems: list[SearchedProblem] = []
    while len(problems) < MOST_PROBLEMS:
        params = [*given, _PAGE, len(problems)]
        table = await run_sql(home, _PROBLEMS.format(where=where), params=params, bus=bus)
        for row in table.records():
            row["facts"] = msgspec.json.decode(row["facts"])
            problems.append(msgspec.convert(row, SearchedProblem))
        if len(table.rows) < _PAGE:
            break
    return problems


async def winners(home: Path, session: str, *, bus: "Bus | None" = None) -> list[WinnerRow]:
    """The winners of ``session``, each source once, confirmed ones first, then the fastest. Errors: :func:`run_sql`."""
    table = await run_sql(home, _WINNERS, params=(session, PER_SESSION), bus=bus)
    nodes = await run_sql(home, "SELECT node, parent FROM nodes WHERE session = ?", params=(session,), bus=bus)
    parents = dict(nodes.rows)
    rows = table.records()
    for row in rows:
        row["branch"] = _first(row["node"], parents)
        row["recipe"] = msgspec.json.decode(row["recipe"]) if isinstance(row["recipe"], str) else row["recipe"]
    return msgspec.convert(rows, list[WinnerRow])


def _first(node: str, parents: dict[str, str]) -> str:
    seen: set[str] = set()
    while parents.get(parents.get(node, "")) is not None and node not in seen:
        seen.add(node)
        node = parents[node]
    return node
