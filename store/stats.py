"""How much a log holds, and how fast it came."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import Schema
from .location import log_path
from .query import run_sql

if TYPE_CHECKING:
    from ..bus import Bus


class LogStats(Schema, frozen=True, kw_only=True):
    """Figures of a log."""

    path: str
    events: int
    sessions: int
    bytes: int | None
    """Of the file with its write-ahead log; None where it lies on another host."""
    first_ns: int | None
    """Time of the earliest event, nanoseconds since the epoch; None in an empty log."""
    last_ns: int | None
    """Of the latest."""
    busiest_per_second: int
    """Most events within one second of the clock."""
    active_per_second: float
    """Events a second, over the seconds in which there was at least one."""
    kinds: dict[str, int]
    """Events by tag, the most frequent first."""
    days: dict[str, int]
    """Events by day (UTC), in order."""


async def log_stats(home: Path, *, bus: "Bus | None" = None) -> LogStats:
    """Figures of the log of ``home``. Errors: :func:`run_sql`."""
    overall = (
        await run_sql(home, "SELECT count(*), count(DISTINCT session), min(at_ns), max(at_ns) FROM events", bus=bus)
    ).rows[0]
    seconds = (
        await run_sql(
            home,
            "SELECT coalesce(max(n), 0), count(*) FROM (SELECT count(*) AS n FROM events GROUP BY at_ns // 1000000000)",
            bus=bus,
        )
    ).rows[0]
    kinds = await run_sql(home, "SELECT tag, count(*) AS n FROM events GROUP BY tag ORDER BY n DESC, tag", bus=bus)
    days = await run_sql(
        home,
        "SELECT strftime(make_timestamp(at_ns // 1000), '%Y-%m-%d') AS day, count(*) "
        "FROM events GROUP BY day ORDER BY day",
        bus=bus,
        max_rows=1_000_000,
    )
    path = log_path(home)
    return LogStats(
        path=str(path),
        events=overall[0],
        sessions=overall[1],
        bytes=_size(path) if bus is None else None,
        first_ns=overall[2],
        last_ns=overall[3],
        busiest_per_second=seconds[0],
        active_per_second=overall[0] / seconds[1] if seconds[1] else 0.0,
        kinds=dict(kinds.rows),
        days=dict(days.rows),
    )


def _size(path: Path) -> int | None:
    files = (path, path.with_name(path.name + ".wal"))
    return sum(file.stat().st_size for file in files if file.exists()) or None
