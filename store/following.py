"""The end of the log, and what comes after it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import Envelope
from .location import log_path
from .pages import page
from .query import run_sql

if TYPE_CHECKING:
    from ..bus import Bus

_POLL_SECONDS = 0.25


async def tail_log(
    home: Path,
    *,
    bus: "Bus | None" = None,
    session: str = "",
    kind: str = "",
    last: int = 10,
    follow: bool = False,
) -> AsyncGenerator[tuple[int, Envelope], None]:
    """The latest events with their positions, oldest first; with ``follow`` also those to come, without end.

    The log is asked again and again, whoever holds it: what is shown is written down for good.

    Args:
        home: where the log is; with ``follow`` there may be none yet.
        bus: of the cluster whose recorder has the log.
        session: only this one.
        kind: only tags that contain this text: ``candidate``, ``node.diagnosed.v1``.
        last: how many of the past.
        follow: go on.

    Raises:
        StoreError, BusError: the log cannot be asked.
    """
    has_log = log_path(home).exists() or bus is not None or not follow
    after = await _start(home, bus, session, kind, last) if has_log else 0
    while True:
        rows = [] if not has_log else await page(home, after, _CHOSEN, (session, session, kind), bus=bus)
        for row in rows:
            yield row.seq, row.envelope
            after = row.seq
        if rows:
            continue
        if not follow:
            return
        await asyncio.sleep(_POLL_SECONDS)  # a log in another process has no event to wait for
        has_log = has_log or log_path(home).exists()


_CHOSEN = "(? = '' OR session = ?) AND contains(tag, ?)"


async def _start(home: Path, bus: "Bus | None", session: str, kind: str, last: int) -> int:
    """The position after which the last ``last`` events stand."""
    if last == 0:
        table = await run_sql(home, "SELECT coalesce(max(seq), 0) FROM events", bus=bus)
        return int(table.rows[0][0])
    sql = f"SELECT min(seq) FROM (SELECT seq FROM events WHERE {_CHOSEN} ORDER BY seq DESC LIMIT ?)"
    table = await run_sql(home, sql, params=(session, session, kind, last), bus=bus)
    first = table.rows[0][0]
    return 0 if first is None else int(first) - 1
