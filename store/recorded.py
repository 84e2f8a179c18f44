"""A session's events with their places in the log, quickly: what replay, resume and diff start from."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from ..schemas import Envelope
from .chain import COLUMNS, Chain, Row
from .database import explained
from .errors import LogBusyError, UnknownSession
from .location import log_path
from .log import Log
from .pages import page
from .query import run_sql
from .shared_log import log_to_read
from .verified_session import verified_in, verified_pages
from .verify import bad_event

if TYPE_CHECKING:
    from ..bus import Bus

_STEP = 5000

_FIRST_GAP = """
    SELECT min(before) + 1 FROM (
        SELECT seq, lag(seq, 1, 0) OVER (ORDER BY seq) AS before FROM events
        UNION ALL SELECT value::BIGINT + 1, (SELECT coalesce(max(seq), 0) FROM events) FROM meta WHERE key = 'events'
    ) WHERE seq > before + 1"""
"""The first position without an event; NULL if there is none."""

Recorded = tuple[int, Envelope]
"""Place in the log, and the event."""

_Read = Callable[[Log, str], Iterator[Recorded]]


async def read_recorded(
    home: Path, session: str, *, bus: "Bus | None" = None, verify: bool = False, to_end: bool = True
) -> list[Recorded]:
    """Every event of ``session`` that is written down, oldest first.

    The file is read directly where it can be; else its holder is asked, page by page.

    Args:
        home: where the log lies.
        session: its id.
        bus: of the cluster whose recorder has the log.
        verify: follow the chain of hashes over them first (:mod:`.verified_session`).
        to_end: with ``verify``, follow it to the log's last event where the session is open.

    Raises:
        UnknownSession: the log has no such session.
        LogCorrupted: with ``verify``, an event is not what was written; the first is named.
        StoreError, BusError: as :func:`.query.run_sql`.
    """
    read = partial(verified_in, to_end=to_end) if verify else recorded_in
    events = await _from_file(home, session, read) if bus is None else None
    if events is None:
        ask = partial(verified_pages, to_end=to_end) if verify else _pages
        events = [event async for event in ask(home, session, bus)]
    if not events:
        if verify:
            await _check_complete(home, bus)
        raise UnknownSession(f"There is no session {session!r} in {log_path(home)}: `kernelswarm sessions` lists them.")
    return events


async def _check_complete(home: Path, bus: "Bus | None") -> None:
    """Before it is said that the log has no such session: is it one that lost events?

    Raises:
        LogCorrupted: it is; the first position without its event is named.
    """
    ((first,),) = (await run_sql(home, _FIRST_GAP, bus=bus)).rows
    if first is not None:
        bad_event(Chain(int(first) - 1), "", "it is not there").check()


async def _from_file(home: Path, session: str, read: _Read) -> list[Recorded] | None:
    """None if this process cannot read it: somebody else has it open, or there is none."""
    path = log_path(home)
    here = Log.opened_here(path)
    if here is not None:
        return await asyncio.to_thread(lambda: list(read(here, session)))
    if not path.exists():
        return None
    with contextlib.suppress(LogBusyError):
        return await asyncio.to_thread(_read_closed, path, session, read)
    return None


def _read_closed(path: Path, session: str, read: _Read) -> list[Recorded]:
    with log_to_read(path) as log:
        return list(read(log, session))


def recorded_in(log: Log, session: str) -> Iterator[Recorded]:
    """Every event of ``session`` in an open log, oldest first. Blocks."""
    with log.cursor() as cursor, explained(log.path):
        result: duckdb.DuckDBPyConnection = cursor.execute(
            f"SELECT {COLUMNS} FROM events WHERE session = ? ORDER BY seq", [session]
        )
        # In steps: a conversion holds the interpreter, and the agents of this process want to answer meanwhile.
        while rows := result.fetchmany(_STEP):
            yield from ((row.seq, row.envelope) for row in map(Row._make, rows))


async def _pages(home: Path, session: str, bus: "Bus | None") -> AsyncIterator[Recorded]:
    after = 0
    while rows := await page(home, after, "session = ?", (session,), bus=bus):
        for row in rows:
            yield row.seq, row.envelope
        after = rows[-1].seq
