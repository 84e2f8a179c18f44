"""Work in a thread that ends when whoever waits for it gives up: only then may its files be taken away."""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

import duckdb

T = TypeVar("T")

_PAUSE_S = 0.02
"""Between two interrupts: one that comes between two steps of a query is lost."""


class Stopped(Exception):
    """Raised in the thread: nobody waits for it any more."""


class Stop:
    """Asked by the work between its steps, and told which queries to interrupt."""

    def __init__(self) -> None:
        self._stop_requested = threading.Event()
        self._connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()

    def check(self) -> None:
        """Go on, or not.

        Raises:
            Stopped: nobody waits any more.
        """
        if self._stop_requested.is_set():
            raise Stopped

    def interrupts(self, con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """``con``, whose queries are interrupted when the work has to end."""
        self.check()
        self._connections.add(con)
        return con

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises in a thread of its own; when this is cancelled, the thread has ended."""
        task = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(task)
        finally:
            self._stop_requested.set()
            while not task.done():
                for con in list(self._connections):
                    with contextlib.suppress(duckdb.Error):  # closed in the meantime
                        con.interrupt()
                await asyncio.wait([task], timeout=_PAUSE_S)
            if not task.cancelled():
                task.exception()  # looked at, so that nobody complains of it: the caller has its own
