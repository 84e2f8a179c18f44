"""How long a query may run and how much memory its process may gain meanwhile."""

import resource
import sys
import threading
import time
from pathlib import Path

import duckdb

MOST_BYTES = 4 * 1024**3
"""That the process may grow by: DuckDB's own limit and half of that again beside it, twice over."""

_LOOK_SECONDS = 0.05
_STATM = Path("/proc/self/statm")


class Limits:
    """While entered, a query on ``con`` is stopped after ``seconds``, or when the process grows too much."""

    def __init__(self, con: duckdb.DuckDBPyConnection, seconds: float) -> None:
        self._con = con
        self._seconds = seconds
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="query-limits", daemon=True)
        self.late = False
        """Whether it was stopped for its time."""
        self.greedy = False
        """Whether it was stopped for its memory."""

    def __enter__(self) -> "Limits":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        begun, most = time.monotonic(), resident_bytes() + MOST_BYTES
        pause = max(0.0, min(self._seconds, _LOOK_SECONDS))
        while not self._done.wait(pause):
            self.late = time.monotonic() - begun >= self._seconds
            self.greedy = self.greedy or (not self.late and resident_bytes() > most)
            if self.late or self.greedy:
                # Again and again: an interrupt that comes between two steps of a query is lost.
                self._con.interrupt()


def resident_bytes() -> int:
    """Memory that this process holds; where the system does not say, the most it ever held."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
