"""The log as it was: the tables of one connection cut off at an event or a time, and every view over what is left."""

import datetime
import re

import duckdb

from ..schemas import InputError
from .typed import NAMES, SQL
from .views import create_temporary_view, create_views

_ID = re.compile(r"[0-9a-f]{32}|(?=.*[a-f])[0-9a-f]{6,31}")
"""An event's id, or its beginning with a letter in it: digits alone are a position."""
_CUT_TO_NOTHING = ("streams", "guard")


def dress(con: duckdb.DuckDBPyConnection, *, typed: bool, as_of: str = "") -> None:
    """Give a reading connection temporary views in the place of everything, where the file's own will not do.

    Unqualified names find temporary views first. That nobody asks for a qualified one is :mod:`.query_sandbox`'s part.

    Args:
        con: a connection of its own.
        typed: whether the file's typed tables are those of this version; if not, they are read from the bodies.
        as_of: empty for the log as it is; else see :func:`condition`.

    Raises:
        InputError: there is no such event, or ``as_of`` is nothing of the kind.
    """
    (file,) = con.execute("SELECT current_database()").fetchone() or ("",)
    there = f'"{file}".main'
    where = f"WHERE {condition(con, as_of)}" if as_of else ""
    if as_of:
        create_temporary_view(con, "events", f"SELECT * FROM {there}.events {where}")
        for name in _CUT_TO_NOTHING:
            create_temporary_view(con, name, f"SELECT * FROM {there}.{name} WHERE false")
        create_temporary_view(
            con, "meta", f"SELECT * FROM {there}.meta WHERE key IN ('log_id', 'created_ns', 'schema_version')"
        )
    for name in NAMES:
        create_temporary_view(con, name, f"SELECT * FROM {there}.{name} {where}" if typed else SQL[name])
    create_views(con, temporary=True)


def condition(con: duckdb.DuckDBPyConnection, as_of: str) -> str:
    """What events have to meet: at most a position in the log (that of an event named by its id), or at most a time.

    Raises:
        InputError: there is no such event, or it is neither a position, nor an id, nor an ISO time.
    """
    if re.fullmatch(r"\d{1,18}", as_of):
        _check_position(con, int(as_of))
        return f"seq <= {int(as_of)}"
    if _ID.fullmatch(as_of):
        rows = con.execute("SELECT seq FROM events WHERE starts_with(id, ?) LIMIT 2", [as_of]).fetchall()
        if not rows:
            raise InputError(f"There is no event {as_of} in this log; {_newest(con)}. The column id of events has all.")
        if len(rows) > 1:
            raise InputError(f"Several events of this log begin with {as_of}: give more of the id.")
        return f"seq <= {rows[0][0]}"
    return f"at_ns <= {_nanoseconds(as_of)}"


def _check_position(con: duckdb.DuckDBPyConnection, seq: int) -> None:
    (last,) = con.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone() or (0,)
    if seq > last:
        raise InputError(f"There is no event {seq} in this log yet; {_newest(con)}.")


def _newest(con: duckdb.DuckDBPyConnection) -> str:
    row = con.execute(
        "SELECT seq, id, strftime(make_timestamp(at_ns // 1000), '%Y-%m-%dT%H:%M:%S') FROM events "
        "WHERE seq = (SELECT max(seq) FROM events)"
    ).fetchone()
    return "it is empty" if row is None else f"the newest is {row[0]} (id {row[1]}, {row[2]} UTC)"


def _nanoseconds(text: str) -> int:
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{text!r} is no point of the log: give a position (1200), the id of an event (6 to 32 hex digits) "
            "or a time in UTC (2026-11-20T22:00)."
        ) from error
    utc = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (utc - epoch) // datetime.timedelta(microseconds=1) * 1000 + 999
