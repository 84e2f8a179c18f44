"""Which rows a user wants: some sessions, and a condition in SQL on a named view."""

import difflib
from collections.abc import Callable, Collection, Sequence

import duckdb

from ...schemas import InputError
from ..query_sandbox import Table, run_sandboxed

VIEWS_BY_FORMAT = {"sft": "nodes", "dpo": "nodes", "grpo": "nodes", "events": "events", "parquet": "sessions"}
"""The view that ``--where`` speaks of."""

Cursors = Callable[[], duckdb.DuckDBPyConnection]
"""Opens a connection to the log, for one query."""

_TIMEOUT_S = 600.0
_MOST_KEYS = 5_000_000


def session_extents(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, int]]:
    """Positions of the first and the last event of every session, in the order of the first ones."""
    rows = con.execute("SELECT session, min(seq), max(seq) FROM events GROUP BY session ORDER BY min(seq)").fetchall()
    return {str(session): (int(first), int(last)) for session, first, last in rows}


def chosen_sessions(recorded: Collection[str], requested: Sequence[str]) -> list[str]:
    """The sessions to export, in the order of ``recorded``.

    Raises:
        InputError: one of ``requested`` is not in the log.
    """
    for session in requested:
        if session not in recorded:
            near = difflib.get_close_matches(session, recorded, 1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else "`kernelswarm sessions` lists them"
            raise InputError(f"there is no session {session!r}; {hint}")
    selected = frozenset(requested) if requested else recorded
    return [session for session in recorded if session in selected]


def check_condition(cursors: Cursors, view: str, where: str) -> None:
    """Refuse a condition that cannot be asked of ``view``.

    Raises:
        InputError: DuckDB says why.
    """
    if where:
        # What ends its parenthesis to go on with something else, as a LIMIT, fits into one of the two at most.
        _ask(cursors, f"SELECT 1 FROM {view} WHERE ({where}\n) LIMIT 0", ())
        _ask(cursors, f"SELECT CASE WHEN ({where}\n) THEN 1 END FROM {view} LIMIT 0", ())


def chosen_nodes(cursors: Cursors, where: str) -> frozenset[tuple[str, str]] | None:
    """Session and name of every node that ``where`` holds for; None without a condition."""
    if not where:
        return None
    table = _ask(cursors, f"SELECT session, node FROM nodes WHERE ({where}\n)", ())
    if table.truncated:
        raise InputError(f"--where chooses more than {len(table.rows):,} nodes: choose some sessions with --session")
    return frozenset((row[0], row[1]) for row in table.rows)


def sessions_where(cursors: Cursors, where: str) -> frozenset[str] | None:
    """Every session that ``where`` holds for; None without a condition."""
    if not where:
        return None
    return frozenset(row[0] for row in _ask(cursors, f"SELECT session FROM sessions WHERE ({where}\n)", ()).rows)


def events_where(cursors: Cursors, where: str, after: int, until: int) -> frozenset[int]:
    """Positions of the events above ``after``, up to ``until``, that ``where`` holds for."""
    sql = f"SELECT seq FROM events WHERE seq > ? AND seq <= ? AND ({where}\n)"
    return frozenset(row[0] for row in _ask(cursors, sql, (after, until)).rows)


def _ask(cursors: Cursors, sql: str, params: Sequence[int]) -> Table:
    with cursors() as cursor:
        try:
            return run_sandboxed(cursor, sql, params, max_rows=_MOST_KEYS, timeout=_TIMEOUT_S)
        except InputError as error:
            raise InputError(f"--where cannot be used. {error}") from error
