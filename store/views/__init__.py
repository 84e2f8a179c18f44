"""The vocabulary of users: one SQL view per file, beside this one, in the words of the search.

A file begins with comments: what a row is, then ``--   column: what it holds`` for every column, in order. From there
come the comments in the database (``duckdb_columns()``) and ``docs/sql.md``.
"""

import hashlib
import re
from importlib import resources

import duckdb

VIEWS = (
    "diagnoses",
    "nodes",
    "candidates",
    "measurements",
    "baselines",
    "steps",
    "model_calls",
    "tool_calls",
    "costs",
    "sessions",
    "lineage",
    "skills",
)
"""In the order in which they are made: a view may stand on those before it."""

_SQL = {name: resources.files(__package__).joinpath(f"{name}.sql").read_text() for name in VIEWS}
_COLUMN = re.compile(r"^--   (\w+): (.+)$", re.MULTILINE)

VIEWS_SHA256 = hashlib.sha256("\0".join(_SQL.values()).encode()).hexdigest()
"""Kept in the log: a log whose views are not these gets them when it is opened."""


def create_views(con: duckdb.DuckDBPyConnection, *, temporary: bool = False) -> None:
    """Make the views, or make them anew; temporary ones (without comments) on a connection that may not write."""
    for name, sql in _SQL.items():
        if temporary:
            create_temporary_view(con, name, sql)
        else:
            con.execute(f"CREATE OR REPLACE VIEW {name} AS {sql}")
            _comment(con, f"VIEW {name}", meaning(name))
            for column, text in columns(name).items():
                _comment(con, f'COLUMN {name}."{column}"', text)


def create_temporary_view(con: duckdb.DuckDBPyConnection, name: str, sql: str) -> None:
    """Make a view of this connection alone. A query binds it again: to bind it here takes as long as some queries."""
    con.execute(f"CREATE OR REPLACE TEMPORARY VIEW {name} WITH (DEFER_BINDING) AS {sql}")


def meaning(view: str) -> str:
    """What a row of ``view`` is."""
    lines = []
    for line in _SQL[view].splitlines():
        if not line.startswith("-- ") or line.startswith("--   "):
            break
        lines.append(line.removeprefix("-- "))
    return " ".join(lines)


def columns(view: str) -> dict[str, str]:
    """What each column of ``view`` holds, by name, in order."""
    return dict(_COLUMN.findall(_SQL[view]))


def _comment(con: duckdb.DuckDBPyConnection, target: str, text: str) -> None:
    quoted = text.replace("'", "''")
    con.execute(f"COMMENT ON {target} IS '{quoted}'")
