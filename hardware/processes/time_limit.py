"""A time limit in which it does not count that threads wait for a core.

A kernel of hundreds of parallel regions waits in each of them for a thread that others keep from its core: a right
AdamW step of 576 regions did not end within a minute beside other work (benchmarks/results/honest_busy.json).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

MOST = 4.0
"""However long threads wait, a limit is at most so many times as long."""
_EARLY = 0.1
"""Share of a limit before whose end it is looked whether it has to be longer."""


def waited_seconds(pid: int) -> float:
    """How long the thread of process ``pid`` that waited longest was ready to run and had no core; 0 where unknown."""
    longest = 0
    for path in Path("/proc", str(pid), "task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            longest = max(longest, int(path.read_text().split()[1]))
    return longest / 1e9


@contextlib.asynccontextmanager
async def time_limit(seconds: float, waited: Callable[[], float]) -> AsyncIterator[None]:
    """Limit the body to ``seconds`` and what ``waited`` grows by meanwhile, but to :data:`MOST` times that.

    Raises:
        TimeoutError: it took longer.
    """
    loop = asyncio.get_running_loop()
    began, before = loop.time(), waited()
    early = _EARLY * seconds
    handles: list[asyncio.TimerHandle] = []
    async with asyncio.timeout(seconds) as limit:

        def extend() -> None:
            end = began + min(seconds + waited() - before, MOST * seconds)
            if end > began + seconds and end > (limit.when() or 0.0):
                limit.reschedule(end)
                handles.append(loop.call_at(max(end - early, loop.time() + early), extend))

        handles.append(loop.call_at(began + seconds - early, extend))
        try:
            yield
        finally:
            handles[-1].cancel()
