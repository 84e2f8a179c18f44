"""Asking the log, whoever holds it: this process, a recorder on the bus, or nobody."""

import asyncio
import contextlib
import hashlib
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..bus import NobodyServes, asked_bus, running
from ..schemas import InputError, KernelswarmError, Schema, decode, encode
from .database import explained
from .errors import LogBusyError
from .location import log_path
from .log import Log
from .query_limits import MAX_ROWS, TIMEOUT_SECONDS
from .query_sandbox import Table, run_sandboxed
from .shared_log import log_to_read

if TYPE_CHECKING:
    from ..bus import Bus

_RETRY_SECONDS = 0.1
_STOP_SECONDS = 2.0
_LOOK_SECONDS = 2.0
"""How often a query that takes long makes sure that somebody is still at it."""

_NICENESS = 10
_BUSY = "Other queries kept the recorder busy: ask again, or give it more time."


class Query(Schema, frozen=True, kw_only=True):
    """A question to a recorder."""

    sql: str
    params: tuple[Any, ...] | dict[str, Any] = ()
    """Values of its ``?``, or by name of its ``$name``."""
    max_rows: int = MAX_ROWS
    timeout: float = TIMEOUT_SECONDS
    as_of: str = ""
    """The log as it was at a position, an event or a time (:func:`kernelswarm.store.as_of.condition`)."""


async def run_sql(
    home: Path,
    sql: str,
    *,
    params: Sequence[Any] | Mapping[str, Any] = (),
    bus: "Bus | None" = None,
    max_rows: int = MAX_ROWS,
    timeout: float = TIMEOUT_SECONDS,
    as_of: str = "",
) -> Table:
    """Run one reading statement over the log of ``home``; ``?`` or ``$name`` in it stand for ``params``.

    DuckDB lets one process have the file. If that is this one, it is asked here; if it is another one, it is asked over
    ``bus`` (or over the embedded server that runs for ``home``); else the file is opened read-only. With a bus that no
    recorder of ``home`` is on, any recorder on it answers.

    ``as_of`` asks the log as it was: a position in it, the id of an event, or a time in UTC as ISO text.

    Raises:
        InputError: the statement is not one that reads, DuckDB refuses it, it took too long, or ``as_of`` is no point
            of the log.
        StoreError: there is no log, it is not usable, or its holder does not let go of it within ``timeout``.
        BusError: the recorder did not answer.
    """
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise InputError("The query is not text: it holds bytes that are not UTF-8.") from error
    values = dict(params) if isinstance(params, Mapping) else tuple(params)
    query = Query(sql=sql, params=values, max_rows=max_rows, timeout=timeout, as_of=as_of)
    deadline = time.monotonic() + timeout
    while True:
        try:
            return await _ask_once(Path(home), query, bus)
        except LogBusyError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_RETRY_SECONDS)  # a file lock has no event to wait for


def service_name(home: Path, service: str = "sql") -> str:
    """Name under which the recorder of ``home`` on this host serves: two homes on one bus are not to be mixed up."""
    return f"{service}-{hashlib.sha256(f'{socket.gethostname()}:{Path(home).resolve()}'.encode()).hexdigest()[:16]}"


def answer(log: Log, query: Query, waited: float = 0.0) -> Table:
    """Run ``query`` on an open log. Blocks.

    Raises:
        InputError: as :func:`kernelswarm.store.query_sandbox.run_sandboxed`.
        StoreError: the file lost pieces, or holds others.
    """
    with log.cursor(as_of=query.as_of) as cursor, explained(log.path):
        return run_sandboxed(
            cursor,
            query.sql,
            query.params,
            max_rows=query.max_rows,
            timeout=query.timeout,
            waited=waited,
            as_of=bool(query.as_of),
        )


async def serve(log: Log, query: Query, readers: Executor) -> bytes:
    """Answer ``query`` in one of ``readers``, in the time it has, waiting for its turn included.

    Raises:
        InputError: as :func:`answer`; or other queries kept all readers busy; or it cannot even be stopped.
    """
    start = time.monotonic()

    def work() -> bytes:
        waited = time.monotonic() - start
        if waited >= query.timeout:
            raise InputError(_BUSY)
        return pack(answer(log, query, waited))

    running = readers.submit(work)
    try:
        async with asyncio.timeout(query.timeout + _STOP_SECONDS):
            return await asyncio.wrap_future(running)
    except TimeoutError as error:
        if running.cancelled():
            raise InputError(_BUSY) from error
        raise InputError(
            f"The query took longer than {query.timeout:g} s and is being stopped: ask for less."
        ) from error


def step_back() -> None:
    """Let the system prefer other threads to this one: whoever records and measures must not wait for questions."""
    # Linux has a niceness for each thread; elsewhere it would be the whole process that steps back.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)


def pack(table: Table) -> bytes:
    """A table for the bus: sources and samples shrink to a fraction."""
    return zlib.compress(encode(table), level=1)


async def _ask_once(home: Path, query: Query, bus: "Bus | None") -> Table:
    path = log_path(home)
    here = Log.opened_here(path)
    if here is not None:
        return await asyncio.to_thread(answer, here, query)
    async with _some_bus(home, bus) as recorder_bus:
        if recorder_bus is not None:
            # On a server of this home alone, its own recorder is the only one worth asking.
            names = [service_name(home)] + ([] if bus is None and path.exists() else ["sql"])
            for name in names:
                with contextlib.suppress(NobodyServes):
                    return await _ask(recorder_bus, name, query, None if bus is not None else home)
    return await asyncio.to_thread(_ask_file, path, query)


@contextlib.asynccontextmanager
async def _some_bus(home: Path, bus: "Bus | None") -> AsyncIterator["Bus | None"]:
    url = None if bus is not None else running(home)
    if url is None:
        yield bus
        return
    async with asked_bus(url) as own:
        yield own


async def _ask(bus: "Bus", name: str, query: Query, home: Path | None) -> Table:
    """Ask a recorder; with ``home`` over the server that was found running for it.

    Raises:
        LogBusyError: it ended before it answered: the log will be free, or another one has it.
    """
    asking = asyncio.ensure_future(bus.request(name, encode(query), query.timeout + 5.0))
    try:
        while not (await asyncio.wait([asking], timeout=_LOOK_SECONDS))[0]:
            if not await _is_there(bus, name, home):
                raise LogBusyError("The process that has the log ended while it was asked: ask again.")
        return decode(zlib.decompress(asking.result()), Table)
    finally:
        asking.cancel()
        asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # how it ends is nobody's concern


async def _is_there(bus: "Bus", name: str, home: Path | None) -> bool:
    """Whether whoever was asked still lives; of one that is busy, or whose server is away for a while, yes."""
    if home is not None and await asyncio.to_thread(running, home) is None:
        return False
    try:
        await bus.request(name, encode(Query(sql="SELECT 1", timeout=_LOOK_SECONDS)), _LOOK_SECONDS)
    except NobodyServes:
        return False
    except KernelswarmError:
        return True
    return True


def _ask_file(path: Path, query: Query) -> Table:
    with log_to_read(path) as log:
        return answer(log, query)
