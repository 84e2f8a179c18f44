"""Lets OpenMP's threads sleep while they wait, in processes in which nothing is timed (docs/decisions/0007).

By default a thread of libgomp that waits for the others spins for about a millisecond before it sleeps. Where another
program needs the cores, it spins while the thread that it waits for is not running: a step of 1.5 s took 17 s beside
two busy processes. libgomp reads how to wait when it is loaded, that is, in the fork server, once for all children. But
it also spins a few microseconds only while a process has more threads than there are cores. So a second team of threads
that never does anything again makes those of the first one sleep.
"""

import contextlib
import ctypes
import os
import threading
from pathlib import Path

MOST_THREADS = 16
"""Of the idle team. Where a pool leaves more cores than that to others, its threads do not stand in their way."""


def sleep_while_waiting(threads: int) -> None:
    """Let this process's ``threads`` sleep while they wait. Does nothing where torch has another OpenMP."""
    library = _libgomp()
    # As many that there is one thread more than cores, and no more: libgomp ends the process that gets none.
    idle = max(2, len(os.sched_getaffinity(0)) - threads + 2)
    if library is None or idle > MOST_THREADS:
        return
    ready = threading.Event()
    threading.Thread(target=_hold_a_team, args=(library, idle, ready), daemon=True, name="a team that is idle").start()
    ready.wait()


def _hold_a_team(library: ctypes.CDLL, threads: int, ready: threading.Event) -> None:
    # The function of the parallel region: it returns at once, and needs no argument.
    nothing = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p)
    library.GOMP_parallel(nothing, None, ctypes.c_uint(threads), ctypes.c_uint(0))
    ready.set()
    # A team ends with the thread that started it.
    threading.Event().wait()


def _libgomp() -> ctypes.CDLL | None:
    """The libgomp that this process has loaded already; None if there is none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.partition("/")[1] + line.partition("/")[2]
            if Path(path).name.startswith("libgomp"):
                return ctypes.CDLL(path)
    return None
