"""The log's rows in order, out of an open file."""

from operator import itemgetter

import duckdb

from .chain import COLUMNS, Row

SPAN = 2048
"""Rows that DuckDB stores, and unpacks, together: as many are asked for at a time."""

_SEGMENT = f"SELECT {COLUMNS} FROM events WHERE seq > ? AND seq <= ?"


def rows_in(con: duckdb.DuckDBPyConnection, after: int, span: int = SPAN) -> list[Row]:
    """The rows at the ``span`` positions after ``after`` of an open file, in order. Blocks."""
    # They lie in order, as they were written: sorting what is sorted costs nothing here, and much in the database.
    rows = con.execute(_SEGMENT, [after, after + span]).fetchall()
    return [Row._make(row) for row in sorted(rows, key=itemgetter(0))]
