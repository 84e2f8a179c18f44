"""A session's events out of the log, with proof that they are what was written.

The chain of hashes runs through the whole log, so the events of other sessions in between are followed as well, and the
one behind: an event that was changed, taken out, put in, or made another session's breaks the chain there. A session
without its opening event, or without its close, is followed from the log's first event, or to its last: what it lacks
may be any of those. (Who only looks at an open session may leave the log's rest out: a search that was killed long ago
has a million events behind it.) So is every session of a log that does not hold as many events as it was left with.
What lies elsewhere is for :func:`.snapshot.verify_log`.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import duckdb

from ..schemas import Envelope
from .chain import Chain, Row
from .database import explained
from .log import Log
from .pages import LogState, pages
from .query import run_sql
from .rows import SPAN, rows_in
from .verify import bad_event, ended, unreadable

if TYPE_CHECKING:
    from ..bus import Bus

_last_page: WeakKeyDictionary[Log, tuple[int, list[Row]]] = WeakKeyDictionary()
"""Where it begins, and its rows, which never change: the last one that was read of each log."""
_Extent = tuple[int, int, bool, bool]
"""First and last position, whether the first is its opening, whether it is closed."""
_extents: WeakKeyDictionary[Log, dict[str, _Extent]] = WeakKeyDictionary()
"""Of every session of a log that is only read."""
_OF_EVENTS = "min(seq), max(seq), arg_min(tag, seq) LIKE 'session.opened.%', bool_or(tag LIKE 'session.closed.%')"
_EXTENT = f"SELECT {_OF_EVENTS} FROM events WHERE session = ?"
_EXTENTS = f"SELECT session, {_OF_EVENTS} FROM events GROUP BY session"
_META = "SELECT value FROM meta WHERE key ="
_EXTENT_AND_STATE = f"""
    SELECT *, (SELECT count(*) FROM events), ({_META} 'log_id'), ({_META} 'events'), ({_META} 'head')
    FROM ({_EXTENT})"""


def verified_in(log: Log, session: str, *, to_end: bool = True) -> Iterator[tuple[int, Envelope]]:
    """Every event of ``session`` in an open log, oldest first; nothing if there is no such session. Blocks.

    Args:
        log: where it is.
        session: its id.
        to_end: follow the chain to the log's last event where the session is open.

    Raises:
        LogCorrupted: an event is not what was written; the first is named.
    """
    with log.cursor() as cursor, explained(log.path):
        extent = _extent(log, cursor, session)
        if extent is None:
            return
        first, last, opened, closed = extent
        # Asked in this order, a log that is being written has at least what was found.
        events, head = log.end()
        state = LogState(id=log.id, events=events, head=head)
        dense = (opened or closed or not to_end) and log.dense
        over = (closed or not to_end) and dense
        segment = _Segment(session, first, last, state, opened=opened and dense, over=over)
        while not segment.done:
            yield from segment.followed(_page(log, cursor, segment) or _read(cursor, segment))


async def verified_pages(
    home: Path, session: str, bus: "Bus | None", *, to_end: bool = True
) -> AsyncIterator[tuple[int, Envelope]]:
    """As :func:`verified_in`, page by page from whoever has the log.

    Raises:
        LogCorrupted: as there. Others: :func:`run_sql`.
    """
    table = await run_sql(home, _EXTENT_AND_STATE, params=(session,), bus=bus)
    first, last, opened, closed, count, id, events, head = table.rows[0]
    if first is None:
        return
    state, dense = LogState(id=id, events=int(events), head=head), count == int(events)
    over = (closed or not to_end) and dense
    segment = _Segment(session, first, last, state, opened=opened and dense, over=over)
    async for rows in pages(home, segment.goal, bus=bus, after=segment.chain.good):
        for event in segment.followed(rows):
            yield event


class _Segment:
    """The part of the chain that a session's events hang on.

    Args:
        session: its id.
        first: position of its first event.
        last: of its last one.
        state: how far the log goes.
        opened: whether nothing of the session can be missing before ``first``.
        over: whether nothing can be missing after ``last``, or nobody asks for that.

    Raises:
        LogCorrupted: ``first`` is before the first of the log.
    """

    def __init__(self, session: str, first: int, last: int, state: LogState, *, opened: bool, over: bool) -> None:
        if first < 1:
            bad_event(Chain(), "", f"an event of session {session} stands at position {first}").check()
        self._session = session
        self._last = last
        self._state = state
        self._trusted = first - 1 if opened else 0
        """Position of an event that only lends its hash; 0 for none."""
        self.chain = Chain(max(0, self._trusted - 1))
        """As far as it was followed."""
        # What a running search has written since is not looked at; what the log does not count is wrong.
        until = max(last, min(last + 1, state.events) if over else state.events)
        self.goal = LogState(id=state.id, events=until, head=state.head)
        """How far to follow it."""

    @property
    def done(self) -> bool:
        """Whether all of it was followed."""
        return self.chain.good >= self.goal.events

    def followed(self, rows: list[Row]) -> Iterator[tuple[int, Envelope]]:
        """Follow the next rows; those of the session come out.

        Raises:
            LogCorrupted: one of them is bad, or the log was left with other events than it has.
        """
        for row in rows:
            if row.seq == self._trusted and self.chain.good == row.seq - 1:
                self.chain = Chain(row.seq, row.hash)
                continue
            envelope = None if row.wire else row.envelope
            if reason := self.chain.step(row, envelope):
                bad_event(self.chain, row.id, reason).check()
            if row.session == self._session:
                yield row.seq, envelope or row.envelope
        if self.chain.good >= max(self._last, self._state.events):
            ended(self.chain, str(self._state.events), self._state.head).check()


def _extent(log: Log, con: duckdb.DuckDBPyConnection, session: str) -> _Extent | None:
    """Where its events lie; None if there are none.

    To find it takes a look at every event of the log, whatever is asked: one does for a log that does not change.
    """
    if not log.read_only:
        extent = con.execute(_EXTENT, [session]).fetchone()
        return extent if extent and extent[0] is not None else None
    if log not in _extents:
        _extents[log] = {row[0]: row[1:] for row in con.execute(_EXTENTS).fetchall()}
    return _extents[log].get(session)


def _page(log: Log, con: duckdb.DuckDBPyConnection, segment: _Segment) -> list[Row]:
    """The next rows out of the page that they lie in; none if that is not as it should be.

    DuckDB unpacks a page of texts whole, whatever is asked of it, and a usual session has an eighth of one: who reads
    sessions one after the other would unpack each page again and again.
    """
    after, goal = segment.chain.good, segment.goal.events
    start = after - after % SPAN
    until = min(start + SPAN, goal)
    cached_start, rows = _last_page.get(log, (-1, []))
    if cached_start != start or len(rows) < until - start:
        try:
            rows = rows_in(con, start)
        except duckdb.Error:
            return []
        _last_page[log] = (start, rows)
    page = rows[after - start : until - start]
    return page if page and page[0].seq == after + 1 else []


def _read(con: duckdb.DuckDBPyConnection, segment: _Segment) -> list[Row]:
    """Some of the next rows; one where DuckDB cannot read more of them.

    Raises:
        LogCorrupted: the next one cannot be read, or is not there.
    """
    chain = segment.chain
    try:
        rows = rows_in(con, chain.good, min(SPAN, segment.goal.events - chain.good))
    except duckdb.Error:
        try:
            rows = rows_in(con, chain.good, 1)
        except duckdb.Error as error:
            unreadable(chain, error).check()
            raise
    if not rows:
        bad_event(chain, "", "it is not there").check()
    return rows
