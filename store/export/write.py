"""Exports a log: reads it once, takes secrets out, writes a folder that is there whole or not at all."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec

from ...schemas import InputError, SessionOpened, decode_envelope, encode, event_tag
from ..chain import COLUMNS, Chain, Row
from ..database import MEMORY
from ..log import Log
from ..snapshot import snapshot
from ..verify import bad_event, ended, verify_chain
from .events import EVENTS_FILE
from .folder import Lines, whole_folder
from .manifest import MANIFEST, FileEntry, LogEntry, Manifest, ProblemEntry, problem_entry
from .parquet import write_parquet
from .scrub import Scrubber
from .selection import (
    VIEWS_BY_FORMAT,
    check_condition,
    chosen_nodes,
    chosen_sessions,
    events_where,
    session_extents,
    sessions_where,
)
from .session import ExportedNode, Extents, read_session
from .stopping import Stop
from .training import BUILDERS, Build

if TYPE_CHECKING:
    from ...bus import Bus

FORMATS = tuple(VIEWS_BY_FORMAT)
_SPAN = 2048
_ASKED_SPAN = 32 * _SPAN
"""Events that a condition is asked about at a time: whatever it joins is joined anew for each of them."""

_MOST_WRITTEN, _MOST_HELD = 16_384, 16 * 1024 * 1024
"""Events and their bytes that are written in one transaction: each extends ten tables."""

_MEMORY = "128MB"
"""What DuckDB may hold of a log that is only read in order, or only written: it keeps whatever it has touched until
this is full, and needs less than half of it. Where tables are compared, it uses the disk beyond."""


@dataclass
class _Job:
    """One export under way."""

    log: Log
    folder: Path
    where: str
    selected: list[str]
    """Sessions."""
    events: int
    """Events of the log that count: later ones are not looked at."""
    extents: Extents
    stop: Stop
    scrubber: Scrubber = field(default_factory=Scrubber)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: dict[str, ProblemEntry] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    redacted: int = 0

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one query, which is interrupted when nobody waits any more."""
        return self.stop.interrupts(self.log.cursor())


async def write_export(
    home: Path,
    format: str,
    out: Path,
    *,
    where: str = "",
    sessions: Sequence[str] = (),
    bus: "Bus | None" = None,
) -> Manifest:
    """Export the log of ``home`` into the folder ``out``; what it says of itself.

    Args:
        home: where the log is. If another process has it, it is copied through that process first.
        format: one of :data:`FORMATS`.
        out: a folder that is not there yet, or an empty one.
        where: condition in SQL on the view that :data:`VIEWS_BY_FORMAT` names; empty: everything.
        sessions: only these; none: all.
        bus: of the cluster whose recorder has the log.

    Raises:
        InputError: ``out`` is not empty, the format, a session or the condition cannot be used. Nothing was changed.
        LogCorrupted: an event is not what was written; it is named. Nothing was changed.
        StoreError: there is no log, it is not usable, or the disk is full. Nothing was changed.
    """
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}: choose one of {', '.join(FORMATS)}")
    with whole_folder(out) as folder:
        # A condition may join the whole log; reading it in order needs no more of it than a few pages.
        async with snapshot(home, folder, bus=bus, memory=MEMORY if where.strip() else _MEMORY) as log:
            stop = Stop()
            return await stop.run(lambda: _export(log, format, folder, where.strip(), sessions, stop))


def _export(log: Log, format: str, folder: Path, where: str, sessions: Sequence[str], stop: Stop) -> Manifest:
    check_condition(lambda: stop.interrupts(log.cursor()), VIEWS_BY_FORMAT[format], where)
    with log.cursor() as cursor:
        state = LogEntry(id=log.id, events=len(log), head=log.head)
        extents = session_extents(cursor)
    job = _Job(log, folder, where, chosen_sessions(extents, sessions), state.events, extents, stop)
    files = {"events": _events, "parquet": _parquet}.get(format, _training(format))(job)
    manifest = Manifest(
        format=format,
        kernelswarm=version("kernelswarm"),
        log=state,
        where=job.scrubber.text(where),
        where_view=VIEWS_BY_FORMAT[format],
        sessions=len(job.sessions),
        rows=sum(entry.rows for entry in files),
        files=tuple(files),
        skipped=dict(sorted(job.skipped.items())),
        redactions=dict(sorted(job.scrubber.replacements.items())),
        redacted_events=job.redacted,
        problems=tuple(sorted(job.problems.values(), key=lambda entry: (entry.name, entry.sha256))),
    )
    (folder / MANIFEST).write_bytes(msgspec.json.format(encode(manifest), indent=2) + b"\n")
    return manifest


def _training(format: str) -> Callable[[_Job], list[FileEntry]]:
    def write(job: _Job) -> list[FileEntry]:
        _check(job)
        keys = chosen_nodes(job.cursor, job.where)

        def choose(node: ExportedNode) -> bool:
            return keys is None or (node.session, node.name) in keys

        with Lines(job.folder, f"{format}.jsonl") as lines:
            for session in job.selected:
                _tell(job, session, BUILDERS[format], choose, lines)
        return [lines.entry()]

    return write


def _check(job: _Job) -> None:
    """What is learned from is what was measured: the events, and for a condition the tables it is asked of."""
    if job.where:
        with job.cursor() as cursor:
            verify_chain(cursor).check()
    else:
        for _ in _followed(job):
            pass


def _tell(job: _Job, session: str, build: Build, choose: Callable[[ExportedNode], bool], lines: Lines) -> None:
    with job.cursor() as cursor:
        record = read_session(cursor, session, job.extents)
    if record is None:
        job.skipped["session whose opening is not in the log"] += 1
        return
    before = lines.rows
    for row in build(record, choose, job.skipped):
        lines.write(encode(job.scrubber.value(msgspec.to_builtins(row))))
    if lines.rows > before:
        job.sessions.add(session)
        job.problems[record.opened.problem.sha256] = problem_entry(record.opened.problem, job.scrubber)


def _events(job: _Job) -> list[FileEntry]:
    with Lines(job.folder, EVENTS_FILE) as lines:
        for _, message in _messages(job, frozenset(job.selected)):
            lines.write(message)
    return [lines.entry()]


def _parquet(job: _Job) -> list[FileEntry]:
    keys = sessions_where(job.cursor, job.where)
    selected = frozenset(job.selected) if keys is None else keys & frozenset(job.selected)
    job.where = ""  # it speaks of sessions, and they are chosen
    clean = job.folder / ".clean.duckdb"
    with Log.open(clean, memory=_MEMORY) as log:
        batch: list[tuple[int, bytes]] = []
        held = 0
        for seq, message in _messages(job, selected):
            batch.append((seq, message))
            held += len(message)
            if len(batch) == _MOST_WRITTEN or held >= _MOST_HELD:
                log.append(batch)
                batch, held = [], 0
        log.append(batch)
    files = write_parquet(clean, job.folder, job.stop)
    clean.unlink()
    return files


def _messages(job: _Job, selected: frozenset[str]) -> Iterator[tuple[int, bytes]]:
    """Position and clean wire bytes of every chosen event, oldest first.

    Raises:
        LogCorrupted: an event is not what was written; it is named.
    """
    keys: frozenset[int] | None = None
    for row, suspicious in _followed(job):
        if job.where and row.seq % _ASKED_SPAN == 1:
            start = row.seq - 1
            keys = events_where(job.cursor, job.where, start, min(start + _ASKED_SPAN, job.events))
        if row.session not in selected or (keys is not None and row.seq not in keys):
            job.skipped["not selected"] += 1
            continue
        message, redacted = job.scrubber.message(row.message, suspicious=suspicious)
        job.redacted += redacted
        job.sessions.add(row.session)
        _note_problem(job, row)
        yield row.seq, message


def _followed(job: _Job) -> Iterator[tuple[Row, bool]]:
    """Every event, oldest first, and whether something in it may have to be redacted.

    Raises:
        LogCorrupted: an event is not what was written; it is named.
    """
    chain = Chain()
    while chain.good < job.events:
        rows = _rows(job, chain.good, min(chain.good + _SPAN, job.events))
        for row, suspicious in rows:
            if reason := chain.step(row):
                bad_event(chain, row.id, reason).check()
            yield row, suspicious
        if not rows:
            break
    ended(chain, str(job.events), chain.head).check()


def _note_problem(job: _Job, row: Row) -> None:
    if row.tag == event_tag(SessionOpened):
        opened: Any = decode_envelope(row.message).event()
        job.problems[opened.problem.sha256] = problem_entry(opened.problem, job.scrubber)


def _rows(job: _Job, after: int, until: int) -> list[tuple[Row, bool]]:
    """DuckDB looks for what is suspicious in all texts at once, in a twentieth of the time."""
    suspicious = " OR ".join(
        f"regexp_matches({text}, $2)"
        for text in ("body", "wire", "concat_ws(chr(10), id, session, pool, node, agent, worker, cause)")
    )
    sql = f"SELECT {COLUMNS}, {suspicious} FROM events WHERE seq > $1 AND seq <= $3 ORDER BY seq"
    with job.cursor() as cursor:
        rows = cursor.execute(sql, [after, job.scrubber.suspicion, until]).fetchall()
    return [(Row._make(row[:-1]), row[-1]) for row in rows]
