"""How commands ask the log: through a cluster's recorder, a running search's, or the file itself."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from .. import store
from ..bus import asked_bus
from ..schemas import InputError, StoreError
from ..sessions.recorded_session import RecordedSession, read_session
from ..store import LogBusyError, UnknownSession, log_path
from .display.terminal import err
from .nearest import nearest

if TYPE_CHECKING:
    from ..bus import Bus

MANY = 10_000
"""Sessions that a misspelt id is compared with."""


def nothing_in(home: Path) -> str:
    """What to say when no session was ever recorded in ``home``."""
    return f"no sessions in {home} yet: run `kernelswarm optimize PROBLEM`, or set KERNELSWARM_HOME to where they are"


async def recorded_session(home: Path, session: str, bus: "Bus | None", *, to_end: bool = True) -> RecordedSession:
    """Everything that is recorded of ``session``, if it is what was written.

    ``to_end``: as for :func:`read_session`; commands that only show something leave it out.

    Raises:
        InputError: there is no such session; the nearest one is named.
        LogCorrupted: it is not what was written; the first bad event is named.
    """
    if bus is None and not log_path(home).exists():
        raise InputError(f"there is no session {session!r}: {nothing_in(home)}")
    try:
        return await read_session(home, session, bus=bus, verify=True, to_end=to_end)
    except UnknownSession as error:
        raise await unknown_session(home, session, bus) from error


async def unknown_session(home: Path, session: str, bus: "Bus | None") -> InputError:
    """What to say of a session that the log does not have."""
    sessions = [row.session for row in await store.sessions(home, bus=bus, limit=MANY)]
    if not sessions and bus is None:
        return InputError(f"there is no session {session!r}: {nothing_in(home)}")
    hint = nearest(session, sessions) or "; `kernelswarm sessions` lists them"
    return InputError(f"there is no session {session!r}{hint}")


@contextlib.asynccontextmanager
async def asked_log(home: Path, nats: str) -> AsyncIterator["Bus | None"]:
    """As :func:`asked_bus`, for several questions in a row: without a cluster, the log's file is opened once for them.

    Nobody can write into it meanwhile: print what was answered afterwards.
    """
    async with asked_bus(nats) as bus, store.share_log(home):
        yield bus


async def damage_of(home: Path, nats: str = "") -> StoreError | None:
    """In what way the log is not what was written, where it is small and in nobody's use (:func:`verify_small`).

    For commands that answer from the whole log: to follow a million events for each question would take a minute.
    """
    try:
        verification = await store.verify_small(home) if not nats else None
        if verification is not None:
            verification.check()
    except LogBusyError:
        return None
    except StoreError as error:
        return error
    return None


def warn_of(damage: StoreError | None) -> None:
    """Say on stderr how the log is damaged, if it is. What a command answered stands, and so does its exit status."""
    if damage is not None:
        err.print(f"[bold yellow]warning[/]: {escape(str(damage))} What was answered may rest on it.")


async def check_known(home: Path, session: str, bus: "Bus | None") -> None:
    """Refuse a session that the log does not have.

    Raises:
        InputError: there is no such session; the nearest one is named.
    """
    if bus is None and not log_path(home).exists():
        raise InputError(f"there is no session {session!r}: {nothing_in(home)}")
    table = await store.run_sql(home, "SELECT 1 FROM events WHERE session = ? LIMIT 1", params=(session,), bus=bus)
    if not table.rows:
        raise await unknown_session(home, session, bus)


async def event_of(past: RecordedSession, name: str, home: Path, bus: "Bus | None") -> str:
    """Id of the session's event that a user names, as :meth:`RecordedSession.event_id`.

    Raises:
        InputError: as there; if it is another session's, that one is named.
    """
    try:
        return past.event_id(name)
    except InputError as error:
        place = int(name) if name.isdecimal() and len(name) < 19 else 0
        where = "WHERE session <> ? AND (id = ? OR seq = ?) ORDER BY seq LIMIT 1"
        sql = f"SELECT session FROM events {where}"
        table = await store.run_sql(home, sql, params=(past.id, name.lower(), place), bus=bus)
        if not table.rows:
            raise
        raise InputError(f"{error}; it is one of session {table.rows[0][0]}") from error
