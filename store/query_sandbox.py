"""Running SQL that somebody wrote: it can read the log and nothing else, and it ends."""

import contextlib
import datetime
import decimal
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from ..schemas import InputError, Schema, StoreError
from .database import is_cut
from .limits import Limits
from .sql_allowlist import check, check_text
from .views import VIEWS, meaning

_CHUNK = 256
_STEP_CHARACTERS = 1024 * 1024
_MAX_CHARACTERS = 64 * 1024 * 1024
_RENDERED_BY_DUCKDB = ("WITH TIME ZONE", "INTERVAL")
"""Types that DuckDB renders as text itself: Python would need pytz for the first, and has no years and months."""
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_BARE_AT = re.compile(r'(?<![\w."])at(?![\w"])', re.IGNORECASE)
_ALLOWED = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


SHOWN_ROWS, SHOWN_CHARACTERS = 20, 60
"""What Python shows of a table, and of a value in it."""


class Table(Schema, frozen=True, kw_only=True):
    """What a query answered."""

    columns: tuple[str, ...]
    """Names."""

    types: tuple[str, ...]
    """Types, as DuckDB names them."""

    rows: tuple[tuple[Any, ...], ...]
    """None, bool, int, float, str, list, dict. Times are ISO text, bytes hex; what JSON has no number for is text."""

    truncated: bool = False
    """Whether there was more than the limit."""

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def __repr__(self) -> str:
        """The first rows in columns, for whoever looks at them in Python; :attr:`rows` has all of them."""
        lines = [self.columns, *([_brief(value) for value in row] for row in self.rows[:SHOWN_ROWS])]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        shown = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
        more = f" of {len(self.rows)}" if len(self.rows) > SHOWN_ROWS else ""
        count = len(lines) - 1
        return "\n".join((*shown, f"({count}{more} row{'s' if count != 1 else ''})"))


def _brief(value: Any) -> str:
    text = "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def run_sandboxed(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any],
    *,
    max_rows: int,
    timeout: float,
    waited: float = 0.0,
    as_of: bool = False,
) -> Table:
    """Run one reading statement on ``con``, a connection of its own, of a database without access to the outside.

    Restrictions, each enough for its purpose: one statement only, and a SELECT or EXPLAIN (so that it cannot
    end the transaction); what its syntax tree says (:mod:`.sql_allowlist`); a read-only transaction (DuckDB's SELECT
    may hold an INSERT in its WITH); the configuration of :mod:`.database` (no files, no extensions, settings locked);
    limits on time and memory.

    Args:
        con: see above.
        sql: the statement.
        params: values of its ``?``, or by name of its ``$name``.
        max_rows: rows to return at most.
        timeout: seconds that it may take.
        waited: seconds of them that are gone already.
        as_of: whether ``con`` shows the log as of an earlier time (:mod:`.as_of`).

    Raises:
        InputError: it is not one reading statement, DuckDB refuses it, or it took longer than ``timeout`` seconds.
        StoreError: the log was closed meanwhile.
        duckdb.Error: the file lost pieces, or holds others.
    """
    if _SHOW_TABLES.fullmatch(sql):
        return _vocabulary(max_rows)
    limits = Limits(con, timeout - waited)
    try:
        with limits:
            statement = _one_select(con, sql)
            check(con, sql, as_of=as_of)
            con.execute("BEGIN TRANSACTION READ ONLY")
            return _fetch(_executed(con, statement, params), max_rows)
    except duckdb.InterruptException as error:
        if limits.greedy:
            raise InputError("The query took too much memory and was stopped: ask for less.") from error
        if limits.late:
            raise InputError(f"The query took longer than {timeout:g} s and was stopped: ask for less.") from error
        raise StoreError("The query was stopped because its log was closed: ask again.") from error
    except duckdb.Error as error:
        if is_cut(str(error)):
            raise
        raise InputError(f"The query was refused. {str(error).strip()}{_quoting_hint(con, sql, error)}") from error
    except (ValueError, OverflowError) as error:
        raise InputError(f"The query was refused. {str(error).strip()}") from error
    finally:
        # Nothing to end when the query was refused before it began.
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")


def _quoting_hint(con: duckdb.DuckDBPyConnection, sql: str, error: duckdb.Error) -> str:
    """That the column ``at`` is a word of DuckDB 2's SQL, where that alone is wrong with ``sql``."""
    if not isinstance(error, duckdb.ParserException) or (quoted := _BARE_AT.sub('"at"', sql)) == sql:
        return ""
    try:
        con.extract_statements(quoted)
    except duckdb.Error:
        return ""
    return '\nThe column at has the name of an SQL keyword: write "at" in double quotes, or nodes.at with its view.'


def _vocabulary(max_rows: int) -> Table:
    """What the log holds for people; DuckDB's own answer would show the tables under the views as well."""
    rows = [(name, meaning(name)) for name in sorted(VIEWS)] + [("events", "The log itself: one row per event.")]
    return Table(
        columns=("name", "meaning"),
        types=("VARCHAR", "VARCHAR"),
        rows=tuple(rows[:max_rows]),
        truncated=len(rows) > max_rows,
    )


def _one_select(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    sql.encode()  # half of a character would only confuse the parser
    check_text(sql)
    statements = con.extract_statements(sql)
    if len(statements) != 1:
        raise InputError(f"One statement at a time, please: this is {len(statements)} of them.")
    if statements[0].type not in _ALLOWED:
        raise InputError(f"The log can only be read: {statements[0].type.name} is not allowed, write a SELECT.")
    return statements[0]


def _executed(
    con: duckdb.DuckDBPyConnection, statement: duckdb.Statement, params: Sequence[Any] | Mapping[str, Any]
) -> duckdb.DuckDBPyConnection:
    values = dict(params) if isinstance(params, Mapping) else list(params)
    result = con.execute(statement, values)
    types = [str(column[1]) for column in result.description or []]
    as_text = [any(type_name in kind for type_name in _RENDERED_BY_DUCKDB) for kind in types]
    if not any(as_text):
        return result
    names = ['"' + str(column[0]).replace('"', '""') + '"' for column in result.description or []]
    places = [f"c{place}" for place in range(len(types))]
    shown = ", ".join(
        f"{place}{'::VARCHAR' if text else ''} AS {name}"
        for place, text, name in zip(places, as_text, names, strict=True)
    )
    return con.execute(f"SELECT {shown} FROM ({_bare(statement.query)}\n) AS asked({', '.join(places)})", values)


def _bare(sql: str) -> str:
    """One statement without its semicolon and what stands behind it."""
    raw = sql.encode()
    return raw[: next((at for at, _ in duckdb.tokenize(sql) if raw[at : at + 1] == b";"), None)].decode()


def _fetch(result: duckdb.DuckDBPyConnection, max_rows: int) -> Table:
    description = result.description or []
    rows: list[tuple[Any, ...]] = []
    size = 0
    step = 1
    # In small steps: a conversion holds the interpreter, and the agents of this process want to answer meanwhile.
    while len(rows) <= max_rows and size < _MAX_CHARACTERS and (chunk := result.fetchmany(step)):
        rows.extend(tuple(map(plain, row)) for row in chunk)
        size += sum(len(value) for row in chunk for value in row if isinstance(value, str | bytes | list))
        step = max(1, min(_CHUNK, _STEP_CHARACTERS * len(rows) // (size + 1)))
    return Table(
        columns=tuple(str(column[0]) for column in description),
        types=tuple(str(column[1]) for column in description),
        rows=tuple(rows[:max_rows]),
        truncated=len(rows) > max_rows or size >= _MAX_CHARACTERS,
    )


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it without loss of meaning, the same here and over the bus."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, decimal.Decimal):
        return plain(float(value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta | uuid.UUID):
        return str(value)
    return str(value)
