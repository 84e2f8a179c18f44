"""The log's rows in order, page by page, whoever holds the file: what is read over the bus."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import LogCorrupted, Schema, StoreError
from .chain import COLUMNS, Row
from .query import run_sql
from .rows import SPAN

if TYPE_CHECKING:
    from ..bus import Bus

_CHARACTERS = 1_000_000
"""Most text in a page of more than one row: it must fit into one answer on the bus."""

_PAGE = f"""
    SELECT value, {COLUMNS} FROM meta LEFT JOIN (
        SELECT *, sum(strlen(body) + strlen(wire) + 400) OVER (ORDER BY seq) AS so_far,
            row_number() OVER (ORDER BY seq) AS place
        FROM (SELECT * FROM events WHERE seq > ? AND ({{chosen}}) ORDER BY seq LIMIT {SPAN})
    ) ON so_far <= {_CHARACTERS} OR place = 1 WHERE key = 'log_id' ORDER BY seq"""

_TRIES = 200
"""How often a page is asked for: where recorders of several logs serve one cluster, any of them may answer."""


class LogState(Schema, frozen=True, kw_only=True):
    """How far a log goes: later events do not change what is before them."""

    id: str
    events: int
    head: str
    """Hash of the last event."""


async def log_state(home: Path, *, bus: "Bus | None" = None) -> LogState:
    """How far the log of ``home`` goes now. Errors: :func:`run_sql`."""
    table = await run_sql(home, "SELECT key, value FROM meta WHERE key IN ('log_id', 'events', 'head')", bus=bus)
    meta = {row[0]: row[1] for row in table.rows}
    return LogState(id=meta["log_id"], events=int(meta["events"]), head=meta["head"])


async def pages(home: Path, state: LogState, *, bus: "Bus | None" = None, after: int = 0) -> AsyncIterator[list[Row]]:
    """Every row after the position ``after`` up to ``state``, in order. What the rows say is not checked.

    Raises:
        LogCorrupted: rows are missing.
        StoreError: another log answers again and again. Others: :func:`run_sql`.
    """
    while after < state.events:
        # A limit alone would have DuckDB sort all that follows, for every page anew.
        until = min(after + SPAN, state.events)
        rows = await page(home, after, "seq <= ?", (until,), bus=bus, log_id=state.id)
        if not rows or rows[-1].seq <= after:
            raise LogCorrupted(f"The log has no event {after + 1}: `kernelswarm log verify` says more.")
        yield rows
        after = rows[-1].seq


async def page(
    home: Path, after: int, chosen: str, params: Sequence[str | int], *, bus: "Bus | None" = None, log_id: str = ""
) -> list[Row]:
    """The next rows after the position ``after`` that meet ``chosen``, a condition in SQL; none if there are none.

    Args:
        home: where the log lies.
        after: a position.
        chosen: condition on ``events``.
        params: of ``chosen``.
        bus: of the cluster whose recorder has the log.
        log_id: of the log that has to answer; empty: whichever does.

    Raises:
        StoreError: another log answers again and again. Others: :func:`run_sql`.
    """
    for _ in range(_TRIES):
        table = await run_sql(home, _PAGE.format(chosen=chosen), params=(after, *params), bus=bus, max_rows=SPAN)
        if log_id in ("", table.rows[0][0]):
            return [Row._make(row[1:]) for row in table.rows if row[1] is not None]
    raise StoreError(f"The recorder of log {log_id} does not answer any more, but that of another one: ask again.")
