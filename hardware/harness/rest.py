"""Does a candidate's process rest while others are timed? What it computes then slows them, and makes it look fast."""

import os
import time

from .clocks import work_ns

LEAST_NS = 10_000_000
"""A rest is judged from so much time on: in less, the ticks of the scheduler's account decide."""
MOST_SHARE = 0.25
"""Processor time, as a share of the rest's: a pool that polls before it sleeps takes a few hundredths."""


LOOKING_NS = 500_000
"""So long a thread of a pool may look for work before it sleeps (:data:`.launcher.WAITING`), with room to spare."""


class Rest:
    """Processor time that a process uses between its turns."""

    def __init__(self, pid: int, threads: int = 1) -> None:
        """``pid`` as we see it; 0: unknown, and nothing will be said of it. Of ``threads`` all but the first may look
        for work, each time."""
        self._pid = pid
        self._allowed_ns = (threads - 1) * LOOKING_NS
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
            self.used_ns += max(0, used - began[0] - self._allowed_ns)
            self.rested_ns += now - began[1]

    @property
    def is_none(self) -> bool:
        """Whether it went on computing. Not asked where the user wants the threads of pools to spin."""
        spins = os.environ.get("OMP_WAIT_POLICY", "passive").lower() != "passive" or "GOMP_SPINCOUNT" in os.environ
        return not spins and self.rested_ns >= LEAST_NS and self.used_ns > MOST_SHARE * self.rested_ns
