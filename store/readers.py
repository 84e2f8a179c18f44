"""The questions the command line asks, answered as typed records."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..schemas import Counters, DeviceProfile, InputError, Interval, StoreError, decode
from .errors import UnknownSession
from .location import log_path
from .query import run_sql
from .records import DiagnosisRow, MeasurementRow, NodeReport, NodeRow, SessionReport, SessionRow, SkillRow

if TYPE_CHECKING:
    from ..bus import Bus

T = TypeVar("T")


async def sessions(home: Path, *, bus: "Bus | None" = None, limit: int = 50) -> list[SessionRow]:
    """The latest sessions, newest first. A home without a log has none. Errors: :func:`run_sql`."""
    if bus is None and not log_path(home).exists():
        return []
    return await _rows(home, bus, SessionRow, "SELECT * FROM sessions ORDER BY at_ns DESC, session LIMIT ?", limit)


async def show(home: Path, session: str, *, bus: "Bus | None" = None) -> SessionReport:
    """One session with its nodes.

    Raises:
        UnknownSession: the log has no opening of such a session. Others: :func:`run_sql`.
    """
    rows = await _rows(home, bus, SessionRow, "SELECT * FROM sessions WHERE session = ?", session)
    if not rows:
        raise UnknownSession(f"There is no session {session!r} in {log_path(home)}: `kernelswarm sessions` lists them.")
    best = rows[0].best or ""
    nodes = await _rows(home, bus, NodeRow, "SELECT * FROM nodes WHERE session = ? ORDER BY number", session)
    baselines_ms, timed_shapes = await _baselines(home, bus, session, best, ordinary=rows[0].measure != "device")
    return SessionReport(
        session=rows[0],
        nodes=tuple(nodes),
        best_path=_path(nodes, best),
        baselines_ms=baselines_ms,
        timed_shapes=timed_shapes,
    )


async def node(home: Path, session: str, node: str, *, bus: "Bus | None" = None) -> NodeReport:
    """One node with its candidate, timings and diagnoses.

    Raises:
        InputError: there is no such node. Others: :func:`run_sql`.
    """
    where = "WHERE session = ? AND node = ?"
    rows = await _rows(home, bus, NodeRow, f"SELECT * FROM nodes {where}", session, node)
    if not rows:
        raise InputError(f"There is no node {node!r} in session {session!r}: `kernelswarm show {session}` lists them.")
    table = await run_sql(
        home, f"SELECT source, rationale, recipe FROM candidates {where}", params=(session, node), bus=bus
    )
    source, rationale, recipe = table.rows[0] if table.rows else ("", "", "{}")
    timed = f"SELECT * FROM measurements {where} ORDER BY at_ns, series"
    judged = f"SELECT * FROM diagnoses {where} ORDER BY seq"
    counters, device = await _profiled(home, bus, session, node)
    status = await run_sql(home, "SELECT status FROM sessions WHERE session = ?", params=(session,), bus=bus)
    return NodeReport(
        node=rows[0],
        speedup=_interval(rows[0]),
        source=source,
        rationale=rationale or "",
        recipe=json.loads(recipe),
        measurements=tuple(await _rows(home, bus, MeasurementRow, timed, session, node)),
        diagnoses=tuple(await _rows(home, bus, DiagnosisRow, judged, session, node)),
        counters=counters,
        device=device,
        session_status=status.rows[0][0] if status.rows else "",
        evidence=await _evidence(home, bus, session, node),
    )


def _interval(row: NodeRow) -> Interval | None:
    if row.speedup is None or row.speedup_low is None or row.speedup_high is None:
        return None
    return Interval(median=row.speedup, low=row.speedup_low, high=row.speedup_high)


async def skills(home: Path, *, bus: "Bus | None" = None, pool: str | None = None, limit: int = 1000) -> list[SkillRow]:
    """Skills that sessions left, newest first; of one pool or of all. Errors: :func:`run_sql`."""
    if bus is None and not log_path(home).exists():
        return []
    sql = "SELECT * FROM skills WHERE pool = coalesce(?, pool) ORDER BY at_ns DESC, skill LIMIT ?"
    return await _rows(home, bus, SkillRow, sql, pool, limit)


async def _rows(home: Path, bus: "Bus | None", kind: type[T], sql: str, *params: Any) -> list[T]:
    table = await run_sql(home, sql, params=params, bus=bus)
    try:
        return msgspec.convert(table.records(), list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise StoreError(
            f"The log at {log_path(home)} holds a {kind.__name__} that is not one: {error}. "
            "`kernelswarm log verify` says more."
        ) from error


def _path(nodes: Sequence[NodeRow], best: str) -> tuple[str, ...]:
    parents = {row.node: row.parent for row in nodes}
    path: list[str] = []
    while best in parents and best not in path:
        path.append(best)
        best = parents[best]
    return tuple(reversed(path))


async def _baselines(
    home: Path, bus: "Bus | None", session: str, best: str, *, ordinary: bool
) -> tuple[dict[str, float], int]:
    """Medians, and of how many shapes. ``ordinary``: rather those of ordinary processes, where there are some."""
    sql = """SELECT series, median_ms FROM measurements WHERE session = ? AND node = ? AND series <> 'candidate'
        AND shape IS NULL
        QUALIFY row_number() OVER (PARTITION BY series ORDER BY (ordinary = ?) DESC, at_ns DESC) = 1 ORDER BY series"""
    table = await run_sql(home, sql, params=(session, best, ordinary), bus=bus)
    first = """SELECT body->'$.report.median_ms', body->'$.report.shapes[*].shape' FROM events
        WHERE session = ? AND tag = 'baselines.measured.v1' ORDER BY seq"""
    looked = await run_sql(home, first, params=(session,), bus=bus, max_rows=1)
    if not looked.rows:
        return dict(table.rows), 1
    median_ms, shapes = looked.rows[0]
    return dict(table.rows) or dict(json.loads(median_ms)), max(1, len(shapes or ()))


async def _profiled(
    home: Path, bus: "Bus | None", session: str, node: str
) -> tuple[Counters | None, DeviceProfile | None]:
    sql = """SELECT body->'$.report.counters', body->'$.report.device' FROM events
        WHERE session = ? AND node = ? AND tag = 'candidate.profiled.v1' ORDER BY seq"""
    table = await run_sql(home, sql, params=(session, node), bus=bus)
    texts = [[text for text in column if text not in (None, "null")] for column in zip(*table.rows, strict=True)]
    counters, looks = texts or ([], [])
    try:
        return (
            decode(counters[-1], Counters) if counters else None,
            decode(looks[-1], DeviceProfile) if looks else None,
        )
    except msgspec.ValidationError as error:
        raise StoreError(f"The log at {log_path(home)} holds a profile that is none: {error}.") from error


async def _evidence(home: Path, bus: "Bus | None", session: str, node: str) -> dict[str, Any]:
    sql = """SELECT body FROM events WHERE session = ? AND node = ? AND tag IN ('candidate.synthesis_failed.v1',
        'candidate.compilation_failed.v1', 'candidate.verification_failed.v1', 'candidate.profiling_failed.v1')
        ORDER BY seq DESC LIMIT 1"""
    table = await run_sql(home, sql, params=(session, node), bus=bus)
    if not table.rows:
        return {}
    body = json.loads(table.rows[0][0])
    return dict(body.get("report", body))
