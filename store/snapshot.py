"""A log to read at leisure, whoever holds the file: this process, nobody, or another one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import LogCorrupted, Schema, StoreError
from .chain import Chain
from .database import MEMORY
from .errors import LogBusyError
from .location import log_path
from .log import Log
from .pages import LogState, log_state, pages
from .verify import VerifyResult, bad_event, ended

if TYPE_CHECKING:
    from ..bus import Bus


class Copied(Schema, frozen=True, kw_only=True):
    """A copy of a log."""

    path: str
    events: int
    head: str
    """Hash of the last event, the same as in the log it was taken from."""


@contextlib.asynccontextmanager
async def snapshot(home: Path, scratch: Path, *, bus: "Bus | None" = None, memory: str = MEMORY) -> AsyncIterator[Log]:
    """The log of ``home``, open for reading. If another process has it, a copy in the folder ``scratch``.

    DuckDB holds ``memory`` of it at most, unless this process has it open for writing.

    Raises:
        StoreError: there is no log, or it is not usable; LogCorrupted: it is damaged.
        BusError: its holder does not answer.
    """
    path = log_path(home)
    here = Log.opened_here(path)
    if here is not None:
        yield here
        return
    log = await opened_if_free(path, memory) if bus is None else None
    if log is None:
        copy = scratch / ".snapshot.duckdb"
        await copy_log(home, copy, bus=bus, memory=memory)
        log = await asyncio.to_thread(Log.open, copy, read_only=True, memory=memory)
    async with log:
        yield log
    (scratch / ".snapshot.duckdb").unlink(missing_ok=True)


async def copy_log(home: Path, out: Path, *, bus: "Bus | None" = None, memory: str = MEMORY) -> Copied:
    """Write what the log of ``home`` holds now into the new log ``out``, event by event, checking the chain.

    Whoever holds the log goes on writing. The copy's chain is the same; its own id is new, so that it can be recorded
    into beside the first.

    Raises:
        LogCorrupted: an event is not what was written; it is named. Others: :func:`snapshot`.
    """
    state = await log_state(home, bus=bus)
    chain = Chain()
    log = await asyncio.to_thread(Log.open, out, memory=memory)
    async with log:
        async for rows in pages(home, state, bus=bus):
            for row in rows:
                if reason := chain.follow(row):
                    bad_event(chain, row.id, reason).check()
            messages = [(row.seq, row.message) for row in rows]
            await asyncio.to_thread(log.append, messages, stream=f"copy of {state.id}")
        ended(chain, str(state.events), state.head).check()
        if log.head != state.head:
            raise LogCorrupted("This version reads an event of the log otherwise than it was recorded: update it.")
    return Copied(path=str(out), events=state.events, head=state.head)


async def verify_log(home: Path, *, bus: "Bus | None" = None) -> VerifyResult:
    """Check the log of ``home``, in the file if it is free, else page by page through whoever holds it.

    Errors: :func:`snapshot`; a damaged log is a result.
    """
    here = Log.opened_here(log_path(home))
    log = here or (await opened_if_free(log_path(home)) if bus is None else None)
    if log is not None:
        try:
            return await asyncio.to_thread(log.verify)
        finally:
            if here is None:
                log.close()
    state: LogState = await log_state(home, bus=bus)
    chain = Chain()
    try:
        async for rows in pages(home, state, bus=bus):
            for row in rows:
                if reason := chain.follow(row):
                    return bad_event(chain, row.id, reason)
    except StoreError as error:
        return bad_event(chain, "", str(error))
    return ended(chain, str(state.events), state.head)


async def opened_if_free(path: Path, memory: str = MEMORY) -> Log | None:
    """The log at ``path`` for reading; None if another process has it. Errors: :meth:`Log.open`."""
    opening = asyncio.ensure_future(asyncio.to_thread(Log.open, path, read_only=True, memory=memory))
    try:
        return await asyncio.shield(opening)
    except LogBusyError:
        return None
    except asyncio.CancelledError:
        with contextlib.suppress(StoreError):
            (await opening).close()  # the thread goes on, and nobody else would close what it opens
        raise
