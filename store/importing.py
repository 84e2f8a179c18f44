"""Events of another machine's log, taken into this one."""

from collections.abc import Collection, Iterator
from pathlib import Path

from ..schemas import InputError, Schema
from .chain import COLUMNS, Row
from .database import is_database
from .export.events import EVENTS_FILE, read_events, read_manifest
from .location import log_path
from .log import Log
from .rows import rows_in
from .verify import VerifyResult

_BATCH = 2000
_STREAM = "import"
_HEADER = ("id", "session", "pool", "node", "tag", "agent", "cause", "at_ns")
"""Columns that an event keeps when secrets are taken out of it."""


class Imported(Schema, frozen=True, kw_only=True):
    """What an import did."""

    source: str
    log: str
    """Path of the log that it went into."""
    events: int
    """That are new here."""
    known: int
    """That were here already."""
    left_out: int
    """Of sessions that were not asked for."""
    sessions: tuple[str, ...]
    """Sessions that gave new events."""
    head: str
    """Hash of the log's last event now."""


class _Source:
    """A foreign log: a file, or an exported folder of events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log: Log | None = None
        self.exact = True
        """Whether the events are what was on the wire: an export takes secrets out."""
        if path.is_dir():
            self.exact = read_manifest(path).redacted_events == 0
        elif not path.exists():
            raise InputError(f"there is no {path}: name a log file, or a folder made by `export --format events`")
        elif path.suffix == Path(EVENTS_FILE).suffix:
            raise InputError(f"{path} is no log file: name the folder that holds it, made by `export --format events`")
        elif not is_database(path):
            raise InputError(
                f"{path} is no log file: name one (`kernelswarm log path`), or a folder made by "
                "`export --format events`"
            )
        else:
            self._log = Log.open(path, read_only=True)

    def check(self) -> None:
        """Verify the chain of a file; a folder's hash was compared when it was opened.

        Raises:
            LogCorrupted: names the first bad event.
        """
        if self._log is not None:
            result: VerifyResult = self._log.verify()
            result.check()

    def batches(self) -> Iterator[list[Row]]:
        """Its events in order."""
        if self._log is None:
            yield from _batched(read_events(self.path))
            return
        for after in range(0, len(self._log), _BATCH):
            with self._log.cursor() as cursor:
                rows = rows_in(cursor, after, _BATCH)
            yield rows

    def close(self) -> None:
        """Let go of the file."""
        if self._log is not None:
            self._log.close()


def import_log(home: Path, source: Path, *, sessions: Collection[str] = (), without: Collection[str] = ()) -> Imported:
    """Take the events of ``source`` into the log of ``home``, all of them or, after an error, none.

    What is here already is dropped, sessions keep their names, and the chain here goes on; the events' times, workers
    and causes stay as they are.

    Args:
        home: of the log that it goes into; it is made if there is none.
        source: a log file, or a folder that ``export --format events`` wrote.
        sessions: only these; none: all.
        without: not these.

    Raises:
        InputError: no such source, or a session here has the name of another one there.
        LogCorrupted: the source's chain does not verify, or a line of it is no event.
        StoreError: the source is no log or of a newer version; the log here is in use; the disk is full.
    """
    path = log_path(home)
    if source.resolve() == path.resolve():
        raise InputError(f"{source} is this log itself: name another one")
    foreign = _Source(source)
    try:
        foreign.check()
        _check_names(foreign, sessions)
        is_new = not path.exists()
        try:
            with Log.open(path) as log:
                return _import(log, foreign, frozenset(sessions), frozenset(without))
        except BaseException:
            if is_new:
                path.unlink(missing_ok=True)
                path.with_name(path.name + ".wal").unlink(missing_ok=True)
            raise
    finally:
        foreign.close()


def _import(log: Log, foreign: _Source, only: frozenset[str], without: frozenset[str]) -> Imported:
    _refuse_clashes(log, foreign, only, without)
    before, given, left_out = len(log), 0, 0
    new: dict[str, None] = {}

    def messages() -> Iterator[list[tuple[int, bytes]]]:
        nonlocal given, left_out
        seq = log.last_seq(_STREAM)
        for batch in foreign.batches():
            selected = [row for row in batch if _is_wanted(row, only, without)]
            left_out += len(batch) - len(selected)
            given += len(selected)
            stored = _stored_rows(log, selected)
            fresh = [row for row in selected if row.id not in stored]
            new.update(dict.fromkeys(row.session for row in fresh))
            if fresh:
                yield [(seq + place, row.message) for place, row in enumerate(fresh, 1)]
                seq += len(fresh)

    written = log.append_all(messages(), stream=_STREAM)
    assert len(log) == before + written
    return Imported(
        source=str(foreign.path),
        log=str(log.path),
        events=written,
        known=given - written,
        left_out=left_out,
        sessions=tuple(new),
        head=log.head,
    )


def _check_names(foreign: _Source, sessions: Collection[str]) -> None:
    missing = set(sessions)
    for batch in foreign.batches() if missing else ():
        missing -= {row.session for row in batch}
    if missing:
        raise InputError(f"{foreign.path} has no session {min(missing)!r}")


def _refuse_clashes(log: Log, foreign: _Source, only: frozenset[str], without: frozenset[str]) -> None:
    """The same id must be the same event, and the same name the same session."""
    with log.cursor() as cursor:
        here = {row[0] for row in cursor.execute("SELECT DISTINCT session FROM events").fetchall()}
    shared: dict[str, bool] = {}
    for batch in foreign.batches():
        selected = [row for row in batch if row.session in here and _is_wanted(row, only, without)]
        stored = _stored_rows(log, selected)
        for row in selected:
            mine = stored.get(row.id)
            if mine is not None and not _is_same(mine, row, exact=foreign.exact):
                raise _clash(foreign, row.session)
            shared[row.session] = shared.get(row.session, False) or mine is not None
    for session, is_shared in shared.items():
        if not is_shared:
            raise _clash(foreign, session)


def _is_same(mine: Row, theirs: Row, *, exact: bool) -> bool:
    if exact:
        return mine.message == theirs.message
    return all(getattr(mine, name) == getattr(theirs, name) for name in _HEADER)


def _clash(foreign: _Source, session: str) -> InputError:
    return InputError(
        f"session {session!r} is here already, and in {foreign.path} it is another one: "
        f"leave it out with --without {session}, or import into another KERNELSWARM_HOME"
    )


def _is_wanted(row: Row, only: frozenset[str], without: frozenset[str]) -> bool:
    return (not only or row.session in only) and row.session not in without


def _stored_rows(log: Log, rows: list[Row]) -> dict[str, Row]:
    if not rows:
        return {}
    ids = [row.id for row in rows]
    with log.cursor() as cursor:
        stored = cursor.execute(f"SELECT {COLUMNS} FROM events WHERE id IN (SELECT unnest(?))", [ids]).fetchall()
    return {row.id: row for row in map(Row._make, stored)}


def _batched(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
