"""The public API's questions to the log. No torch is imported for them."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ..bus import asked_bus
from ..sessions.home import kernelswarm_home
from ..store import Question, Table, questions, run_sql
from ..store.query_limits import MAX_ROWS, TIMEOUT_SECONDS

T = TypeVar("T")


def sql(
    query: str | Question,
    params: Sequence[Any] | Mapping[str, Any] = (),
    *,
    as_of: str = "",
    max_rows: int = MAX_ROWS,
    timeout: float = TIMEOUT_SECONDS,
    nats: str = "",
    home: Path | None = None,
) -> Table:
    """Ask the log, while searches run and after; ``.records()`` of the answer are dictionaries.

    Args:
        query: one SELECT, or a question of :func:`questions`.
        params: values of ``?``, or by name of ``$name``; of a question those that are not to be its defaults.
        as_of: the log as it was: an event's id, a position in it, or a time in UTC as ISO text.
        max_rows: rows at most; the answer's ``truncated`` says whether there were more.
        timeout: seconds that it may take.
        nats: URL of a cluster, whose recorder is asked; without it, the log of ``home``.
        home: where the log lies; by default ``KERNELSWARM_HOME`` or the user data folder.

    Raises:
        InputError: it does not only read, DuckDB refuses it, or it took too long.
        StoreError: there is no log.
        BusError: the cluster cannot be reached, or does not answer.
    """
    if isinstance(query, Question):
        given = params if isinstance(params, Mapping) else dict(zip(query.parameters, params, strict=False))
        return sql(
            query.sql, query.values(given), as_of=as_of, max_rows=max_rows, timeout=timeout, nats=nats, home=home
        )
    root = home or kernelswarm_home()

    async def ask() -> Table:
        async with asked_bus(nats) as bus:
            return await run_sql(root, query, params=params, bus=bus, max_rows=max_rows, timeout=timeout, as_of=as_of)

    return blocking(ask())


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, also from within a running loop (a notebook), in a thread of its own then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="kernelswarm") as pool:
        return pool.submit(asyncio.run, work).result()


__all__ = ["questions", "sql"]
