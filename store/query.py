"""Asking the log, whoever holds it: this process, a recorder on the bus, or nobody."""

import asyncio
import contextlib
import hashlib
import socket
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from ..bus import Bus, NobodyServes
from ..bus.bulk import running
from ..schemas import InputError, Schema, decode, encode
from .database import LogBusyError
from .guard import Table, guarded
from .log import Log, log_path

MAX_ROWS = 10_000
"""Rows that a query returns at most, unless it is told otherwise."""

TIMEOUT_SECONDS = 30.0
"""How long a query may take, unless it is told otherwise."""

_RETRY_SECONDS = 0.1


class Query(Schema, frozen=True, kw_only=True):
    """A question to a recorder."""

    sql: str
    params: tuple[Any, ...] = ()
    max_rows: int = MAX_ROWS
    timeout: float = TIMEOUT_SECONDS


async def run_sql(
    home: Path,
    sql: str,
    *,
    params: Sequence[Any] = (),
    bus: Bus | None = None,
    max_rows: int = MAX_ROWS,
    timeout: float = TIMEOUT_SECONDS,
) -> Table:
    """Run one reading statement over the log of ``home``; ``?`` in it stand for ``params``.

    DuckDB lets one process have the file. If that is this one, it is asked here; if it is another one, it is asked over
    ``bus`` (or over the embedded server that runs for ``home``); else the file is opened read-only. With a bus and
    no log in ``home``, any recorder on that bus answers.

    Raises:
        InputError: the statement is not one that reads, DuckDB refuses it, or it took too long.
        StoreError: there is no log, it is not usable, or its holder does not let go of it within ``timeout``.
        BusError: the recorder did not answer.
    """
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise InputError("The query is not text: it holds bytes that are not UTF-8.") from error
    query = Query(sql=sql, params=tuple(params), max_rows=max_rows, timeout=timeout)
    deadline = time.monotonic() + timeout
    while True:
        try:
            return await _ask_once(Path(home), query, bus)
        except LogBusyError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_RETRY_SECONDS)  # a file lock has no event to wait for


def service_name(home: Path, what: str = "sql") -> str:
    """Name under which the recorder of ``home`` on this host serves: two homes on one bus are not to be mixed up."""
    return f"{what}-{hashlib.sha256(f'{socket.gethostname()}:{Path(home).resolve()}'.encode()).hexdigest()[:16]}"


def answer(log: Log, query: Query) -> Table:
    """Run ``query`` on an open log. Blocks. Errors: :func:`kernelswarm.store.guard.guarded`."""
    with log.cursor() as cursor:
        return guarded(cursor, query.sql, query.params, max_rows=query.max_rows, timeout=query.timeout)


def pack(table: Table) -> bytes:
    """A table for the bus: sources and samples shrink to a fraction."""
    return zlib.compress(encode(table), level=1)


async def _ask_once(home: Path, query: Query, bus: Bus | None) -> Table:
    path = log_path(home)
    here = Log.opened_here(path)
    if here is not None:
        return await asyncio.to_thread(answer, here, query)
    async with _some_bus(home, bus) as found:
        if found is not None:
            names = [service_name(home)] + ([] if path.exists() else ["sql"])
            for name in names:
                with contextlib.suppress(NobodyServes):
                    return await _ask(found, name, query)
    return await asyncio.to_thread(_ask_file, path, query)


@contextlib.asynccontextmanager
async def _some_bus(home: Path, bus: Bus | None) -> AsyncIterator[Bus | None]:
    url = None if bus is not None else running(home)
    if url is None:
        yield bus
        return
    async with await Bus.connect(url, name="query") as own:
        yield own


async def _ask(bus: Bus, name: str, query: Query) -> Table:
    data = await bus.request(name, encode(query), query.timeout + 5.0)
    return decode(zlib.decompress(data), Table)


def _ask_file(path: Path, query: Query) -> Table:
    with Log.open(path, read_only=True) as log:
        return answer(log, query)
