"""What is asked often, as typed columns: tables beside ``events``, one SQL file each, derived from the events alone.

Parsing a million JSON bodies takes seconds, a column of numbers milliseconds. The recorder fills the tables in the
transaction that writes the events; a log that lacks them, or has those of another version, gets them anew
when it is opened for writing, and until then reads them as views over the bodies (``docs/decisions/0010``).
"""

import hashlib
import re
from collections.abc import Iterable
from importlib import resources

import duckdb

NAMES = (
    "opened_events",
    "baseline_events",
    "planned_events",
    "proposed_events",
    "claimed_events",
    "submitted_events",
    "called_events",
    "step_events",
    "series_events",
    "diagnosed_events",
    "closed_events",
    "skill_events",
)

SQL = {name: resources.files(__package__).joinpath(f"{name}.sql").read_text() for name in NAMES}
"""What each table is, as a query over ``events``; every row of it has the ``seq`` and ``at_ns`` of its event."""

TAGS = {name: frozenset(re.findall(r"'([a-z_]+\.[a-z_]+\.v\d+)'", sql)) for name, sql in SQL.items()}
"""Tags that each table is made of."""

TYPED_SHA256 = hashlib.sha256("\0".join(SQL.values()).encode()).hexdigest()
"""Kept in the log: a log whose tables were made by other queries gets them anew."""


def build_typed(con: duckdb.DuckDBPyConnection) -> None:
    """Make every table anew from all events."""
    for name, sql in SQL.items():
        con.execute(f"CREATE OR REPLACE TABLE {name} AS {sql}")


def extend_typed(con: duckdb.DuckDBPyConnection, after: int, tags: Iterable[str] | None = None) -> None:
    """Add what events behind position ``after`` say; ``tags`` are theirs, if that is known."""
    tag_set = None if tags is None else frozenset(tags)
    for name, sql in SQL.items():
        if tag_set is None or tag_set & TAGS[name]:
            con.execute(f"INSERT INTO {name} SELECT * FROM ({sql}) WHERE seq > {after:d}")


def differing(con: duckdb.DuckDBPyConnection) -> tuple[str, int] | None:
    """The first table that is not what the events say, and the first event it is wrong about; None if all are right.

    Raises:
        duckdb.Error: one of them cannot be read.
    """
    for name in NAMES:
        (seq,) = con.execute(first_wrong(name)).fetchone() or (None,)
        if seq is not None:
            return name, seq
    return None


def first_wrong(name: str, which: str = "") -> str:
    """SQL for ``seq``, the first event that a table is wrong about; NULL if it is right.

    Rows of the table count 1 and rows that its query makes -1: what does not come to 0 is there too often or too
    seldom. (Two EXCEPT ALL say the same in three times the time.)

    Args:
        name: of the table.
        which: a WHERE for its rows, if ``events`` are not all of them either.
    """
    both = f"SELECT 1 AS kept, * FROM {name} {which} UNION ALL SELECT -1 AS kept, * FROM ({SQL[name]})"
    differing = f"SELECT * EXCLUDE (kept), sum(kept) FROM ({both}) GROUP BY ALL HAVING sum(kept) <> 0"
    return f"SELECT min(seq) AS seq FROM ({differing})"
