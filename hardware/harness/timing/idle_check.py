"""Checks that a candidate's process is idle while others are timed: its work would slow them."""

import asyncio
import os
import time
from collections.abc import Iterator

from .clocks import work_ns
from .placement import threads_of

LEAST_NS = 10_000_000
"""Idle time is judged from so much on: in less, the ticks of the scheduler's account decide."""
MOST_SHARE = 0.25
"""Processor time, as a share of the idle time: a pool that polls before it sleeps takes a few hundredths."""
POLL_SECONDS = 1e-3
QUIET_SAMPLES = 2
"""A process is idle if so often in a row none of its threads runs or wants to."""
RESTLESS_SECONDS = 0.5
"""Threads of a pool that look for work before they sleep, up to ten milliseconds by default, sleep long before."""


def runs(pid: int) -> bool:
    """Whether a thread of the process runs or waits for a core.

    Its processor time does not tell: the system adds what runs elsewhere only with the next tick, 4 ms later.
    """
    return any(fields[:1] == [b"R"] for fields in threads_of(pid).values())


def waits_until_idle(pid: int, most: float = RESTLESS_SECONDS) -> Iterator[float]:
    """Seconds to sleep, again and again, until the threads of the process sleep; ``most`` seconds in all."""
    until, quiet = time.monotonic() + most, 0
    while quiet < QUIET_SAMPLES and time.monotonic() < until:
        yield POLL_SECONDS
        quiet = 0 if runs(pid) else quiet + 1


async def until_idle(pid: int) -> None:
    """Wait until the threads of the process sleep, so that they take no time from the next one; not for ever."""
    for seconds in waits_until_idle(pid):
        await asyncio.sleep(seconds)


class IdleCheck:
    """Processor time that a process uses between its turns."""

    def __init__(self, pid: int) -> None:
        """``pid`` as we see it; 0: unknown, and nothing will be said of it."""
        self._pid = pid
        self._began: tuple[int, int] | None = None
        self.used_ns = 0
        self.rested_ns = 0

    def begin(self) -> None:
        """Its turn is over."""
        used = work_ns(self._pid)
        self._began = None if used is None else (used, time.perf_counter_ns())

    def end(self) -> None:
        """Its next turn comes."""
        began, used, now = self._began, work_ns(self._pid), time.perf_counter_ns()
        self._began = None
        if began is not None and used is not None:
            self.used_ns += max(0, used - began[0])
            self.rested_ns += now - began[1]

    @property
    def is_none(self) -> bool:
        """Whether it went on computing. Not asked where the user wants the threads of pools to spin."""
        spins = os.environ.get("OMP_WAIT_POLICY", "passive").lower() != "passive" or "GOMP_SPINCOUNT" in os.environ
        return not spins and self.rested_ns >= LEAST_NS and self.used_ns > MOST_SHARE * self.rested_ns
