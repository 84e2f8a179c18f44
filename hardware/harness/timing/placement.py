"""Pins the threads of other processes to cores of their own, and releases them again (docs/decisions/0007).

The system may put threads that wait for one another on one core, and leave them there for many calls: where a process
goes on after it stood still, and where it wakes up on a machine that does something else. In a program that runs on
they would have found cores of their own.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

_TICKS, _CORE = slice(11, 13), 36
"""Where ``/proc/PID/task/TID/stat`` has processor time and the last core, counted from the thread's state."""


def fields_of(stat: bytes) -> list[bytes]:
    """What the system says of a thread, from its state on."""
    return stat.rpartition(b")")[2].split()


def place(stats: Mapping[str, Sequence[bytes]]) -> dict[str, set[int]]:
    """Give each thread one core, those that have computed most cores of their own; returns what they were allowed.

    ``stats`` are the fields of each thread by its id.
    """
    load: Counter[int] = Counter()
    before = {}
    for thread in sorted(stats, key=lambda thread: sum(map(int, stats[thread][_TICKS])), reverse=True):
        with contextlib.suppress(OSError):
            allowed = os.sched_getaffinity(int(thread))
            last = int(stats[thread][_CORE])
            core = min(allowed, key=lambda core: (load[core], core != last))
            load[core] += 1
            os.sched_setaffinity(int(thread), {core})
            before[thread] = allowed
    return before


def release(allowed: Mapping[str, set[int]]) -> None:
    """Let threads use the cores again that they were allowed before."""
    for thread, cores in allowed.items():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def sharing_a_core(pid: int) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Stay on the core on which the first thread of process ``pid`` was last, until this is closed.

    The first function that comes puts that thread there for its next turn. The second lets it leave again once it is
    awake: threads that it starts may run where it may.
    """
    own, allowed = os.sched_getaffinity(0), os.sched_getaffinity(pid)
    core = int(fields_of(Path("/proc", str(pid), "stat").read_bytes())[_CORE])
    release({"0": {core}})
    try:
        yield lambda: release({str(pid): {core}}), lambda: release({str(pid): allowed})
    finally:
        release({"0": own, str(pid): allowed})


def threads_of(pid: int) -> dict[str, list[bytes]]:
    """What the system says of each thread of a process, by its id; nothing where it does not say."""
    stats = {}
    for path in Path("/proc", str(pid), "task").glob("*/stat"):
        with contextlib.suppress(OSError):
            stats[path.parent.name] = fields_of(path.read_bytes())
    return stats


def spread(pid: int) -> None:
    """Put the threads of a process that runs on cores of their own. Nothing happens where the system cannot do it."""
    stats = threads_of(pid)
    if stats and hasattr(os, "sched_setaffinity"):
        release(place(stats))
