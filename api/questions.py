"""The public API's questions to the log. No torch is imported for them."""

import asyncio
import re
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from ..bus import asked_bus
from ..schemas import KernelswarmError
from ..sessions.home import kernelswarm_home
from ..sessions.interrupts import Interrupts, run_interruptible
from ..sessions.search_options import SearchOptions
from ..store import Question, Table, questions, run_sql
from ..store.query_limits import MAX_ROWS, TIMEOUT_SECONDS

T = TypeVar("T")
_NAMES = frozenset({"author", *(field.name for field in fields(SearchOptions))})
_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])(?: ([\d.]*\d)\b)?")


def sql(
    query: str | Question,
    params: Sequence[Any] | Mapping[str, Any] = (),
    *,
    as_of: str = "",
    max_rows: int = MAX_ROWS,
    timeout: float = TIMEOUT_SECONDS,
    nats: str = "",
    home: str | Path | None = None,
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
    root = kernelswarm_home(home)

    async def ask() -> Table:
        async with asked_bus(nats) as bus:
            return await run_sql(root, query, params=params, bus=bus, max_rows=max_rows, timeout=timeout, as_of=as_of)

    return blocking(ask())


def blocking(work: Coroutine[Any, Any, T] | Callable[[Interrupts], Coroutine[Any, Any, T]]) -> T:
    """Run to the end, also from within a running loop (a notebook), in a thread of its own then.

    Ctrl-C cancels it; what takes ``Interrupts`` may end politely before.
    """
    with errors_in_python():
        if _is_in_loop():
            return _in_thread(work if callable(work) else lambda _: work)
        if not callable(work):
            return asyncio.run(work)
        # As `asyncio.run`: whoever handles the signal otherwise goes on doing so.
        is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        is_ours = is_ours and threading.current_thread() is threading.main_thread()
        return run_interruptible(work, [signal.SIGINT] if is_ours else [])


def _in_thread(main: Callable[[Interrupts], Coroutine[Any, Any, T]]) -> T:
    """Ctrl-C arrives here and not in the thread's loop: it is passed on, as ``asyncio.run`` would."""
    running: list[tuple[asyncio.AbstractEventLoop, Interrupts]] = []

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        running.append((loop, Interrupts(task, loop)))
        return await main(running[0][1])

    with ThreadPoolExecutor(1, thread_name_prefix="kernelswarm") as pool:
        future = pool.submit(asyncio.run, run())
        is_interrupted = False
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:
                is_interrupted = True
                for loop, interrupts in running:
                    with suppress(RuntimeError):  # it ended just now
                        loop.call_soon_threadsafe(interrupts.arrived)
            except asyncio.CancelledError as error:
                if not is_interrupted:
                    raise
                raise KeyboardInterrupt(*error.args) from None


@contextmanager
def errors_in_python() -> Iterator[None]:
    """Errors name options as arguments of Python's functions, not as those of the command."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        vars(interrupt).setdefault("result", None)  # whoever handles it may ask for it
        raise
    except KernelswarmError as error:
        error.args = tuple(in_python(item) if isinstance(item, str) else item for item in error.args)
        raise


def in_python(text: str) -> str:
    """``--minutes 2`` becomes ``minutes=2``, for every option of a search."""
    return _OPTION.sub(_argument, text)


def _argument(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    if name not in _NAMES:
        return option[0]
    return f"{name}={option[2]}" if option[2] else name


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


__all__ = ["questions", "sql"]
