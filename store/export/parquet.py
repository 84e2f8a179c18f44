"""The format ``parquet``: every view and the events themselves, each a file, for whatever reads Parquet."""

from collections.abc import Iterator
from pathlib import Path

import duckdb

from ..database import explained
from ..typed import NAMES as TYPED
from ..views import VIEWS, create_views
from .folder import file_entry
from .manifest import FileEntry
from .stopping import Stop

TABLES = ("events", *VIEWS)

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "256MB",
    # Every thread holds row groups of its own, with sources and reports in them.
    "threads": 1,
}
_GROUP_ROWS = 8192
"""Rows of a group in a file: a group is held in memory until it is written."""

_WIDE = ("candidates", "measurements", "model_calls", "tool_calls")
"""Views that look into bodies: joining all of those at once would hold them in memory."""

_PORTION = 20_000
"""Events of the sessions that such a view is asked about at a time."""


def write_parquet(log: Path, folder: Path, stop: Stop) -> list[FileEntry]:
    """Write the tables of the log at ``log``, which nobody has open and nobody wants back, into ``folder``."""
    with explained(folder), stop.interrupts(duckdb.connect(log, config=_CONFIG)) as con:
        con.execute("SET allowed_directories = [?]", [str(folder)])
        con.execute("SET enable_external_access = false")
        return [_write(con, name, folder, stop) for name in TABLES]


def _write(con: duckdb.DuckDBPyConnection, name: str, folder: Path, stop: Stop) -> FileEntry:
    stop.check()
    path = folder / f"{name}.parquet"
    columns = [(row[0], row[1]) for row in con.execute(f"DESCRIBE {name}").fetchall()]
    # Parquet's JSON type is unknown to most readers.
    select_list = ", ".join(
        f'"{column}"::{kind.replace("JSON", "VARCHAR")} AS "{column}"' if "JSON" in kind else f'"{column}"'
        for column, kind in columns
    )
    order = next(column for column in ("seq", "at_ns", "session", columns[0][0]) if column in dict(columns))
    # The events lie in their order: sorting them would hold all of them in memory.
    ordered = "" if name in ("events", *_WIDE) else f"ORDER BY {order}"
    source = _staged(con, name, order, stop) if name in _WIDE else name
    con.execute(
        f"COPY (SELECT {select_list} FROM {source} {ordered}) TO '{str(path).replace(chr(39), chr(39) * 2)}' "
        f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP_ROWS})"
    )
    rows = con.execute(f"SELECT count(*) FROM {name}").fetchone()
    return file_entry(path, int(rows[0]) if rows else 0)


def _staged(con: duckdb.DuckDBPyConnection, name: str, order: str, stop: Stop) -> str:
    """A table with the rows of a view, session by session in the order of their beginnings."""
    con.execute(f"CREATE TABLE staged_{name} AS SELECT * FROM {name} LIMIT 0")
    (file,) = con.execute("SELECT current_database()").fetchone() or ("",)
    for sessions in _portions(con):
        stop.check()
        chosen = ", ".join("'" + session.replace("'", "''") + "'" for session in sessions)
        # Unqualified names find temporary views first: what the view joins is the portion alone.
        for table in ("events", *TYPED):
            con.execute(
                f"CREATE OR REPLACE TEMPORARY VIEW {table} AS "
                f'SELECT * FROM "{file}".main.{table} WHERE session IN ({chosen})'
            )
        create_views(con, temporary=True)
        con.execute(f"INSERT INTO staged_{name} SELECT * FROM {name} ORDER BY {order}")
        for table in ("events", *TYPED, *VIEWS):
            con.execute(f"DROP VIEW temp.{table}")
    return f"staged_{name}"


def _portions(con: duckdb.DuckDBPyConnection) -> Iterator[list[str]]:
    """All sessions, some at a time: those of about :data:`_PORTION` events."""
    portion: list[str] = []
    held = 0
    for session, events in con.execute("SELECT session, count(*) FROM events GROUP BY 1 ORDER BY min(seq)").fetchall():
        portion.append(session)
        held += events
        if held >= _PORTION:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion
