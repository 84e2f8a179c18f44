"""How the DuckDB file is opened, created and brought up to date, with errors that people understand."""

import contextlib
import re
import time
import uuid
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import duckdb

from ..schemas import StoreError
from .chain import GENESIS, Row
from .errors import LogBusyError
from .typed import NAMES, TYPED_SHA256, build_typed, extend_typed
from .views import VIEWS, VIEWS_SHA256, create_views

MEMORY = "2GB"
"""What DuckDB may hold of a log and of the queries on it."""

SCHEMA_VERSION = 1
"""Of the tables. A newer file is refused, an older one is upgraded when it is opened for writing."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    # Each time it rewrites the last row group, 120,000 events; to read so much of a WAL takes a quarter of a second.
    "checkpoint_threshold": "64MB",
    "threads": 1,  # the recorder lives beside the search: it may not take the cores that are being measured
}
_NUMBERS = {"seq": "BIGINT", "at_ns": "BIGINT", "schema_version": "INTEGER"}
_COLUMNS = [(name, _NUMBERS.get(name, "VARCHAR"), "NO") for name in Row._fields]
"""Of ``events``, as DuckDB describes them: name, type, whether it may be NULL."""

_MARKS = "SELECT key, value FROM meta"
_OBJECTS = " UNION ALL ".join(
    # Without the schema DuckDB makes every view of its own catalogs first, six milliseconds.
    f"SELECT '{kind}', {kind}_name FROM duckdb_{kind}s() WHERE schema_name = 'main' AND NOT internal AND NOT temporary"
    for kind in ("table", "view")
)

_HEADERS = 3 * 4096
"""Bytes of a file before its first block."""

_AGAIN = "What the event bus still holds (30 days of events) is recorded again when something next records."
_WAYS_OUT = (
    "put a copy in its place that `kernelswarm log backup` made, or begin a new one with `kernelswarm log import` of "
    f"another machine's log or of exported events. {_AGAIN}"
)
_HOLDER = re.compile(r"\(PID (\d+)\)")


class Contents(NamedTuple):
    """What a file says of itself. A query takes a third of a millisecond at least, so all of it is read in two."""

    marks: dict[str, str]
    """The ``meta`` table."""
    tables: set[str]
    views: set[str]

    @property
    def views_fit(self) -> bool:
        """Whether the views are there, and those of this version."""
        return self.marks.get("views_sha256") == VIEWS_SHA256 and set(VIEWS) <= self.views

    @property
    def typed_fit(self) -> bool:
        """Whether the typed tables are there, those of this version, and hold every event."""
        return self.typed_are_known and self.marks.get("typed_events") == self.marks.get("events")

    @property
    def typed_are_known(self) -> bool:
        """Whether the typed tables are there, and those of this version."""
        return self.marks.get("typed_sha256") == TYPED_SHA256 and set(NAMES) <= self.tables


def open_database(path: Path, *, read_only: bool, memory: str = MEMORY) -> tuple[duckdb.DuckDBPyConnection, Contents]:
    """Open a log's file, creating it (and its folder) when it is opened for writing.

    Raises:
        LogBusyError: another process holds it.
        StoreError: it is no log, it was written by a newer version, or the disk refuses.
    """
    if read_only and not path.exists():
        raise StoreError(f"There is no log at {path} yet: run a search first, or set KERNELSWARM_HOME to where it is.")
    with explained(path, opened=False):
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        con = _connect(path, read_only=read_only, memory=memory)
        try:
            contents = _prepare(con, path, read_only=read_only)
            con.execute("SET lock_configuration = true")
        except BaseException:
            con.close()
            raise
    return con, contents


def _connect(path: Path, *, read_only: bool, memory: str) -> duckdb.DuckDBPyConnection:
    is_new = not path.exists()
    try:
        return duckdb.connect(path, read_only=read_only, config={**_CONFIG, "memory_limit": memory})
    except duckdb.Error as error:
        # A disk that was full before the headers were written: what is left would be taken for a log that was cut off.
        if is_new and not _is_held(str(error)) and path.exists() and path.stat().st_size < _HEADERS:
            path.unlink()
        raise


def read_contents(con: duckdb.DuckDBPyConnection) -> Contents:
    """What an open log says of itself."""
    tables, views = _names(con)
    return Contents(dict(con.execute(_MARKS).fetchall()), tables, views)


def write_meta(con: duckdb.DuckDBPyConnection, key: str, value: str) -> None:
    """Change a value of the ``meta`` table that is there."""
    con.execute("UPDATE meta SET value = ? WHERE key = ?", [value, key])


@contextlib.contextmanager
def explained(path: Path, *, opened: bool = True) -> Iterator[None]:
    """Turn what DuckDB and the file system say into one sentence; ``opened``: the file is open already.

    Raises:
        LogBusyError: another process holds the file, or queries hold all memory.
        StoreError: anything else.
    """
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise LogBusyError(f"The log at {path} has no memory left beside the queries that are running.") from error
    except duckdb.Error as error:
        raise _sentence(path, str(error), opened=opened) from error
    except OSError as error:
        raise StoreError(f"The log at {path} cannot be opened or written: {error.strerror or error}.") from error


def _prepare(con: duckdb.DuckDBPyConnection, path: Path, *, read_only: bool) -> Contents:
    tables, views = _names(con)
    if not tables and not read_only:
        _create(con)
        return read_contents(con)
    if not {"events", "meta", "streams"} <= tables:
        raise StoreError(f"{path} is a DuckDB file but not a log of kernelswarm; move it away or use another home.")
    rows = con.execute(_MARKS).fetchall()
    _check_version(dict(rows).get("schema_version", ""), path)
    _check_made_as_here(con, rows, path)
    contents = Contents(dict(rows), tables, views)
    if read_only or (contents.views_fit and contents.typed_fit):
        return contents
    _upgrade(con, contents)
    return read_contents(con)


def _create(con: duckdb.DuckDBPyConnection) -> None:
    con.begin()
    con.execute(resources.files(__package__).joinpath("schema.sql").read_text())
    build_typed(con)
    create_views(con)
    meta = {
        "schema_version": str(SCHEMA_VERSION),
        "log_id": uuid.uuid4().hex,
        "created_ns": str(time.time_ns()),
        "views_sha256": VIEWS_SHA256,
        "typed_sha256": TYPED_SHA256,
        "typed_events": "0",
        "events": "0",
        "head": GENESIS,
    }
    con.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
    con.commit()
    con.execute("CHECKPOINT")


def _check_version(version: str, path: Path) -> None:
    if not version.isdigit() or int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"The log at {path} has version {version or 'unknown'}, this kernelswarm knows {SCHEMA_VERSION}: "
            "install a newer kernelswarm, or use another home."
        )


def _check_made_as_here(con: duckdb.DuckDBPyConnection, rows: list[tuple[str, str]], path: Path) -> None:
    """Refuse a log that somebody has built otherwise: nothing of it could be followed.

    Raises:
        StoreError: the columns of its events, or what it says of itself, are not as they are made.
    """
    marks = dict(rows)
    is_whole = len(marks) == len(rows) and {"log_id", "head"} <= marks.keys() and marks.get("events", "").isdecimal()
    columns = [row[:3] for row in con.execute("DESCRIBE events").fetchall()]
    if not is_whole or columns != _COLUMNS:
        part = "columns of its events" if is_whole else "marks of how it was left, in its table meta,"
        raise StoreError(f"The log at {path} is damaged: the {part} were changed. Move it away, and {_WAYS_OUT}")


def _names(con: duckdb.DuckDBPyConnection) -> tuple[set[str], set[str]]:
    """Of the tables and of the views."""
    rows = con.execute(_OBJECTS).fetchall()
    return {name for kind, name in rows if kind == "table"}, {name for kind, name in rows if kind == "view"}


def _upgrade(con: duckdb.DuckDBPyConnection, contents: Contents) -> None:
    con.begin()
    filled = contents.marks.get("typed_events", "")
    if contents.typed_are_known and filled.isdecimal():
        extend_typed(con, int(filled))  # an older program wrote the events behind these
    else:
        build_typed(con)
    create_views(con)
    marks = {"views_sha256": VIEWS_SHA256, "typed_sha256": TYPED_SHA256, "typed_events": contents.marks["events"]}
    for key, value in marks.items():
        con.execute("DELETE FROM meta WHERE key = ?", [key])
        con.execute("INSERT INTO meta VALUES (?, ?)", [key, value])
    con.commit()
    con.execute("CHECKPOINT")


def is_database(path: Path) -> bool:
    """Whether a file begins as those of DuckDB do, which opens others, too: of SQLite, of JSON. True where that cannot
    be seen."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except IsADirectoryError:
        return False
    except OSError:
        return True


def is_cut(message: str) -> bool:
    """Whether DuckDB speaks of a file that lost pieces, or holds others."""
    return any(words in message for words in ("Could not read enough bytes", "Corrupt database file", "checksum"))


def _is_held(message: str) -> bool:
    return "Could not set lock" in message or "different configuration" in message


def _sentence(path: Path, message: str, *, opened: bool) -> StoreError:
    first = message.strip().splitlines()[0]
    if _is_held(message):
        holder = _HOLDER.search(message)
        who = f"process {holder[1]}" if holder else "this process"
        return LogBusyError(f"The log at {path} is in use by {who}; try again when that is done.")
    if "not a valid DuckDB database" in message or not is_database(path):
        return StoreError(
            f"{path} is not a log of kernelswarm: move it away, or use another home. "
            f"If it was one, its beginning was overwritten: then {_WAYS_OUT}"
        )
    if "replaying WAL file" in message:
        return StoreError(
            f"The log at {path} cannot be read because the file beside it, {path.name}.wal, was overwritten: move that "
            f"away, and the log is there up to what was last taken out of it. {_AGAIN} ({first})"
        )
    if is_cut(message):
        rest = "`kernelswarm log verify` says how many of its events can be read. Else move" if opened else "move"
        return StoreError(f"The log at {path} was cut off or overwritten: {rest} it away, and {_WAYS_OUT} ({first})")
    if "No space left" in message or "File too large" in message:
        return StoreError(f"The disk is full: the log at {path} cannot be written. Free some space and start again.")
    return StoreError(f"The log at {path} cannot be opened or written: {first}")
