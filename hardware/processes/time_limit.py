"""A time limit in which it does not count that threads wait for a core.

A kernel of hundreds of parallel regions waits in each of them for a thread that others keep from its core: a right
AdamW step of 576 regions did not end within a minute beside other work (benchmarks/results/honest_busy.json).
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable

MOST = 4.0
"""However long threads wait, a limit is at most so many times as long."""
_EARLY = 0.1
"""Share of a limit before whose end it is looked whether it has to be longer."""
_LATER = 0.05
"""Seconds after which it is looked how long threads have waited so far: most bodies end before, and cost no look."""


def waited_seconds(pid: int) -> float:
    """How long the thread of process ``pid`` that waited longest was ready to run and had no core; 0 where unknown."""
    longest = 0
    # Dozens of threads a process where there are dozens of cores, asked on the event loop: no more than system calls.
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return 0.0
    for thread in threads:
        with contextlib.suppress(OSError, ValueError, IndexError):
            longest = max(longest, _waited_ns(f"{folder}/{thread}/schedstat"))
    return longest / 1e9


def waited_seconds_here() -> float:
    """The same of the thread that asks."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return _waited_ns("/proc/thread-self/schedstat") / 1e9
    return 0.0


def _waited_ns(path: str) -> int:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(file, 128).split()[1])
    finally:
        os.close(file)


@contextlib.asynccontextmanager
async def time_limit(
    seconds: float, waited: Callable[[], float], stood: Callable[[], float] = lambda: 0.0
) -> AsyncIterator[None]:
    """Limit the body to ``seconds`` and what ``waited`` grows by meanwhile, but to :data:`MOST` times that.

    What it grows by in the first :data:`_LATER` seconds does not count. ``stood``: seconds in which it was made to
    stand still, which come on top.

    Raises:
        TimeoutError: it took longer.
    """
    loop = asyncio.get_running_loop()
    began, before = loop.time(), 0.0
    early = _EARLY * seconds
    handles: list[asyncio.TimerHandle] = []
    async with asyncio.timeout(seconds) as limit:

        def look() -> None:
            nonlocal before
            before = waited()
            handles.append(loop.call_at(began + seconds - early, extend))

        def extend() -> None:
            end = began + min(seconds + waited() - before, MOST * seconds) + stood()
            if end > began + seconds and end > (limit.when() or 0.0):
                limit.reschedule(end)
                handles.append(loop.call_at(max(end - early, loop.time() + early), extend))

        handles.append(loop.call_at(began + min(_LATER, early), look))
        try:
            yield
        finally:
            handles[-1].cancel()
