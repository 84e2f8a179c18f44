"""The vocabulary of users: one SQL view per file, beside this one, in the words of the search."""

import hashlib
from importlib import resources

import duckdb

VIEWS = ("diagnoses", "nodes", "candidates", "measurements", "model_calls", "sessions", "lineage", "skills")
"""In the order in which they are made: a view may stand on those before it."""

_SQL = {name: resources.files(__package__).joinpath(f"{name}.sql").read_text() for name in VIEWS}

VIEWS_SHA256 = hashlib.sha256("\0".join(_SQL.values()).encode()).hexdigest()
"""Kept in the log: a log whose views are not these gets them when it is opened."""


def create_views(con: duckdb.DuckDBPyConnection, *, temporary: bool = False) -> None:
    """Make the views, or make them anew; temporary ones on a connection that may not write."""
    kind = "TEMPORARY VIEW" if temporary else "VIEW"
    for name, sql in _SQL.items():
        con.execute(f"CREATE OR REPLACE {kind} {name} AS {sql}")
