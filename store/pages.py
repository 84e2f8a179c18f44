"""The log's rows in order, page by page, whoever holds the file: what backup, export and import read."""

from collections.abc import AsyncIterator
from pathlib import Path

from ..bus import Bus
from ..schemas import LogCorrupted, Schema, StoreError
from .chain import Row
from .query import run_sql

_SPAN = 2000
"""Positions asked for at a time."""

_CHARACTERS = 2_000_000
"""Most text in a page of more than one row: it must fit into one answer on the bus."""

_COLUMNS = ", ".join(Row._fields)
_PAGE = f"""
    SELECT value, {_COLUMNS} FROM meta LEFT JOIN (
        SELECT *, sum(strlen(body) + strlen(wire) + 400) OVER (ORDER BY seq) AS so_far
        FROM events WHERE seq > ? AND seq <= ?
    ) ON so_far <= {_CHARACTERS} OR seq = ? WHERE key = 'log_id' ORDER BY seq"""

_TRIES = 200
"""How often a page is asked for: where recorders of several logs serve one cluster, any of them may answer."""


class LogState(Schema, frozen=True, kw_only=True):
    """How far a log goes: later events do not change what is before them."""

    id: str
    events: int
    head: str
    """Hash of the last event."""


async def log_state(home: Path, *, bus: Bus | None = None) -> LogState:
    """How far the log of ``home`` goes now. Errors: :func:`run_sql`."""
    table = await run_sql(home, "SELECT key, value FROM meta WHERE key IN ('log_id', 'events', 'head')", bus=bus)
    meta = {row[0]: row[1] for row in table.rows}
    return LogState(id=meta["log_id"], events=int(meta["events"]), head=meta["head"])


async def pages(home: Path, state: LogState, *, bus: Bus | None = None, after: int = 0) -> AsyncIterator[list[Row]]:
    """Every row after the position ``after`` up to ``state``, in order. What the rows say is not checked.

    Raises:
        LogCorrupted: rows are missing.
        StoreError: another log answers again and again. Others: :func:`run_sql`.
    """
    while after < state.events:
        span = min(after + _SPAN, state.events)
        rows = await _page(home, state, bus, after, span)
        if not rows or rows[-1].seq <= after:
            raise LogCorrupted(f"The log has no event {after + 1}: `kernelswarm log verify` says more.")
        yield rows
        after = rows[-1].seq


async def _page(home: Path, state: LogState, bus: Bus | None, after: int, until: int) -> list[Row]:
    for _ in range(_TRIES):
        table = await run_sql(home, _PAGE, params=(after, until, after + 1), bus=bus, max_rows=_SPAN + 1)
        if table.rows[0][0] == state.id:
            return [Row._make(row[1:]) for row in table.rows if row[1] is not None]
    raise StoreError(f"The recorder of log {state.id} does not answer any more, but that of another one: ask again.")
