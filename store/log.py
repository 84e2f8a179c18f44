"""The append-only log: one DuckDB file, one writer."""

import asyncio
import contextlib
import functools
import logging
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import msgspec

from ..schemas import Envelope, StoreError, decode_envelope
from .as_of import dress
from .chain import Row, fingerprint, link, read_message
from .database import MEMORY, Contents, explained, open_database, write_meta
from .errors import LogBusyError
from .typed import extend_typed
from .verify import VerifyResult, verify_chain

if TYPE_CHECKING:
    from .ids import IdIndex

_OPEN: "weakref.WeakValueDictionary[Path, Log]" = weakref.WeakValueDictionary()
_STEP = 100
"""Rows handed to DuckDB at a time: it holds the interpreter, and agents in this process want to answer meanwhile."""

_STOP_SECONDS, _STOP_PAUSE = 10.0, 0.02
"""How long closing waits for queries that it has stopped, and between two looks."""

_OPENING = threading.Lock()
_log = logging.getLogger("kernelswarm.store")


class Log:
    """An open log. Its calls block; they may come from any thread."""

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection, contents: Contents, *, read_only: bool) -> None:
        """Use :meth:`open`."""
        self.path = path
        self.read_only = read_only
        self.id = contents.marks["log_id"]
        self._con = con
        self._typed_fit, self._views_fit = contents.typed_fit, contents.views_fit
        self._lock = threading.Lock()
        # Readers get their connections from one that never writes, so that they do not wait for a commit.
        self._reader = con.cursor()
        self._reader_lock = threading.Lock()
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._head = contents.marks["head"]
        self._count = int(contents.marks["events"])
        self._streams: dict[str, int] = dict(con.execute("SELECT identity, last_seq FROM streams").fetchall())
        self._ids: IdIndex | None = None

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False, memory: str = MEMORY) -> "Log":
        """Open the log at ``path``; when it is opened for writing, create it if need be.

        DuckDB holds ``memory`` of it at most.

        Raises:
            LogBusyError: another process has it open (DuckDB lets a writer in only alone).
            StoreError: it is no log, it was written by a newer version, or the disk refuses.
        """
        path = Path(path).resolve()
        with _OPENING:
            if cls.opened_here(path) is not None:
                # DuckDB would share its instance, and two writers would each continue the same chain.
                raise LogBusyError(f"The log at {path} is in use by this process; use that one, or close it.")
            con, contents = open_database(path, read_only=read_only, memory=memory)
            try:
                with explained(path, opened=False):
                    log = cls(path, con, contents, read_only=read_only)
            except BaseException:
                con.close()
                raise
            if not read_only:
                _OPEN[path] = log
        return log

    @staticmethod
    def opened_here(path: Path) -> "Log | None":
        """The log that this process has open for writing at ``path``: the file cannot be opened a second time."""
        log = _OPEN.get(Path(path).resolve())
        return log if log is not None and not log.closed else None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._con is None

    @property
    def head(self) -> str:
        """Hash of the last event: whoever writes it down elsewhere can prove later that nothing was changed."""
        return self._head

    def __len__(self) -> int:
        return self._count

    def end(self) -> tuple[int, str]:
        """How many events it holds, and the hash of the last one; a write that is under way is waited for."""
        with self._lock:
            return self._count, self._head

    @functools.cached_property
    def dense(self) -> bool:
        """Whether it holds as many events as it was left with, when this is first asked."""
        with self._lock, self._reader_lock, explained(self.path):
            self._check_open()
            return self._con.execute("SELECT count(*) FROM events").fetchone() == (self._count,)

    def last_seq(self, stream: str = "") -> int:
        """Highest sequence of ``stream`` that is written down; 0 if none is."""
        return self._streams.get(stream, 0)

    def append(self, messages: Sequence[tuple[int, bytes]], *, stream: str = "") -> int:
        """Write messages of ``stream`` (identity: name and creation), durably, all of them or none.

        ``messages`` are pairs of stream sequence and wire bytes, in stream order. What the log has
        already (a sequence it has passed, an id it knows) is dropped; what is no event is dropped
        with a warning. Returns how many events were written.

        Raises:
            StoreError: the disk refused; nothing was written.
        """
        with self._lock, explained(self.path):
            self._check_open()
            fresh = [(seq, data) for seq, data in messages if seq > self.last_seq(stream)]
            if not fresh:
                return 0
            new = self._new(_readable(fresh))
            with self._transaction(stream) as transaction:
                transaction.last = max(seq for seq, _ in fresh)
                self._insert(transaction, new)
            self._index().add(transaction.fingerprints)
            return transaction.written

    def append_all(self, batches: Iterable[Sequence[tuple[int, bytes]]], *, stream: str) -> int:
        """As :meth:`append`, batch by batch in one transaction: all of them or, if ``batches`` raises, none."""
        with self._lock, explained(self.path):
            self._check_open()
            try:
                with self._transaction(stream) as transaction:
                    for batch in batches:
                        transaction.last = max(seq for seq, _ in batch)
                        self._insert(transaction, self._new(_readable(batch)))
                        self._index().add(transaction.fingerprints)
            except BaseException:
                self._ids = None
                raise
            return transaction.written

    def read(self, *, session: str | None = None, after: int = 0, limit: int = 1000) -> list[tuple[int, Envelope]]:
        """Events after the log's position ``after``, oldest first, at most ``limit``; of one session or of all."""
        where = "seq > ?" + (" AND session = ?" if session is not None else "")
        values: list[Any] = [after] + ([session] if session is not None else []) + [limit]
        with self.cursor() as cursor, explained(self.path):
            rows = cursor.execute(f"SELECT * FROM events WHERE {where} ORDER BY seq LIMIT ?", values).fetchall()
        return [(row.seq, decode_envelope(row.message)) for row in map(Row._make, rows)]

    def verify(self) -> VerifyResult:
        """Recompute the chain from the first event; the result names the first bad one."""
        with self.cursor() as cursor, explained(self.path):
            return verify_chain(cursor)

    def cursor(self, *, as_of: str = "") -> duckdb.DuckDBPyConnection:
        """A connection of its own to the same database, for one query; close it.

        With ``as_of`` (:func:`kernelswarm.store.as_of.condition`) its tables and views hold what the log held then.
        """
        with self._reader_lock, explained(self.path):
            self._check_open()
            cursor = self._reader.cursor()
            if as_of or not (self._typed_fit and self._views_fit):
                dress(cursor, typed=self._typed_fit, as_of=as_of)
            self._cursors.add(cursor)
            return cursor

    def close(self) -> None:
        """Close the file; a second call does nothing. Queries that run are stopped."""
        with self._lock, self._reader_lock:
            if not self.closed:
                self._close_reader()
                self._con.close()
                self._con = None  # type: ignore[assignment]

    def _check_open(self) -> None:
        if self.closed:
            raise StoreError(f"The log at {self.path} is closed: open it again.")

    def _close_reader(self) -> None:
        """Queries are interrupted until it is closed: closing one that has just begun waits for its end."""
        closed = threading.Event()
        interrupting = threading.Thread(target=self._interrupt, args=(closed,), name="log-interrupt", daemon=True)
        interrupting.start()
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            while True:
                try:
                    return self._reader.close()
                except duckdb.Error:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(_STOP_PAUSE)
        finally:
            closed.set()
            interrupting.join()

    def _interrupt(self, closed: threading.Event) -> None:
        """Again and again: an interrupt that comes between two steps of a query is lost."""
        while not closed.is_set():
            for cursor in list(self._cursors):
                with contextlib.suppress(duckdb.Error):
                    cursor.interrupt()
            closed.wait(_STOP_PAUSE)

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Log":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closing takes tens of milliseconds: too long for an event loop."""
        await asyncio.to_thread(self.close)

    def _new(self, entries: Iterable["_ReadableMessage"]) -> list["_ReadableMessage"]:
        """Those whose id the log does not have, each id once."""
        first: dict[str, _ReadableMessage] = {}
        for entry in entries:
            first.setdefault(entry.row.id, entry)
        suspects = self._index().suspects({id: entry.fingerprint for id, entry in first.items()})
        if suspects:
            result = self._con.execute("SELECT id FROM events WHERE id IN (SELECT unnest(?))", [list(suspects)])
            for (duplicate,) in result.fetchall():
                del first[duplicate]
        return list(first.values())

    def _index(self) -> "IdIndex":
        if self._ids is None:
            from .ids import IdIndex  # numpy takes longer to import than a log to read, and only writers need it

            self._ids = IdIndex(self._con.execute("SELECT md5_number_lower(id) AS f FROM events").fetchnumpy()["f"])
        return self._ids

    @contextlib.contextmanager
    def _transaction(self, stream: str) -> Iterator["_Transaction"]:
        """What is written inside is there afterwards, or after an error nothing of it."""
        transaction = _Transaction(head=self._head, last=self.last_seq(stream))
        self._con.begin()
        try:
            yield transaction
            count = self._count + transaction.written
            extend_typed(self._con, self._count, transaction.tags)
            write_meta(self._con, "head", transaction.head)
            write_meta(self._con, "typed_events", str(count))
            write_meta(self._con, "events", str(count))
            self._advance(stream, transaction.last)
            self._con.commit()
        except BaseException:
            _roll_back(self._con)
            raise
        self._head, self._count = transaction.head, count
        self._streams[stream] = transaction.last

    def _insert(self, transaction: "_Transaction", new: Sequence["_ReadableMessage"]) -> None:
        linked: list[Row] = []
        for seq, (row, message, _) in enumerate(new, self._count + transaction.written + 1):
            linked.append(link(row, seq, transaction.head, message))
            transaction.head = linked[-1].hash
        with self._con.appender("events") as appender:
            for start in range(0, len(linked), _STEP):
                appender.append_rows(linked[start : start + _STEP])
        transaction.fingerprints = [entry.fingerprint for entry in new]
        transaction.tags.update(row.tag for row in linked)
        transaction.written += len(linked)

    def _advance(self, stream: str, last: int) -> None:
        if stream in self._streams:
            self._con.execute("UPDATE streams SET last_seq = ? WHERE identity = ?", [last, stream])
        else:
            self._con.execute("INSERT INTO streams VALUES (?, ?)", [stream, last])


class _ReadableMessage(NamedTuple):
    """A message that can be read."""

    row: Row
    """Without position and hash."""
    message: bytes
    fingerprint: int
    """Of its id."""


@dataclass
class _Transaction:
    """What is written, but not yet for good."""

    head: str
    """Hash of the last event."""
    last: int
    """Sequence of the stream that is passed."""
    written: int = 0
    """Events."""
    fingerprints: list[int] = field(default_factory=list)
    """Of the ids of the latest of them."""
    tags: set[str] = field(default_factory=set)
    """Of all of them."""


def _readable(messages: Iterable[tuple[int, bytes]]) -> Iterator[_ReadableMessage]:
    for seq, data in messages:
        try:
            row = read_message(data)
        except (ValueError, msgspec.MsgspecError) as error:
            _log.warning("store: message %d of the stream is no event and was not recorded: %s", seq, error)
        else:
            yield _ReadableMessage(row, data, fingerprint(row.id))


def _roll_back(con: duckdb.DuckDBPyConnection) -> None:
    """After a failed write DuckDB may have ended the transaction itself, or shut the database."""
    try:
        con.rollback()
    except duckdb.Error as error:
        _log.debug("store: there was nothing to roll back: %s", error)
