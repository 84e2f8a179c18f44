"""Whoever is timed goes before everybody else, where that is asked for and permitted (docs/decisions/0012)."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_LIMIT = Path("/proc/sys/kernel/sched_rt_runtime_us")
"""Microseconds of each second that such threads may take in all; -1: there is no limit."""
_LATENCY = Path("/dev/cpu_dma_latency")
"""Whoever holds it open says how many microseconds a core may take to wake up (Linux: PM Quality of Service)."""
_TIMED, _WATCHING = 1, 2
"""Priorities for real time: each goes before all ordinary threads, and whoever reads the clock before the timed."""
_POLICY = getattr(os, "SCHED_RR", -1)
"""Not first come, first served: a process that computes out of turn would stop the others, and itself."""
_MOST_THREADS = 3 * (os.cpu_count() or 1) + 2
"""Of a process: its main thread, torch's pool, one of its own, and some to spare. More could leave others nothing."""


ASKED = "KERNELSWARM_GO_FIRST"
"""Environment variable: 1 asks for it. Off by default: on virtual machines with few cores honest calls of microseconds
waited for a core so long that they looked like lies, and processes reached the system's limit on such threads."""


def is_asked_for() -> bool:
    """Whether the user wants it."""
    return os.environ.get(ASKED) == "1"


@contextlib.contextmanager
def precedence(pids: Sequence[int], *, wanted: bool = True) -> Iterator[bool]:
    """While open, all threads of ``pids``, and those that they start, run as soon as they can, and on cores apart.

    The scheduler of ordinary threads may leave two threads of a pool on one core for as long as a process lives, or put
    them behind somebody else's work in the middle of a call: the same kernel then takes half as long again. And cores
    that nothing runs on do not fall asleep: waking up costs a call of many parallel regions more than its work.

    Yields:
        Whether every process got it. Without privileges none does, nor where nothing would be left for the rest, be it
        that the system sets no limit or that a process has many threads.
    """
    if not wanted or _POLICY < 0:
        yield False
        return
    known = [pid for pid in pids if pid]
    with _cores_awake(), _restored():
        granted = len(known) == len(pids) and _leaves_time() and all(map(_put_first, known))
        granted = granted and _watch_first()
        try:
            if not granted:
                # One before the other would be worse than both behind.
                _put_all_back(known)
            yield granted
        finally:
            _put_all_back(known)


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """Give this thread back what it has now."""
    had = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != had[0]:
            os.sched_setscheduler(0, *had)


@contextlib.contextmanager
def _cores_awake() -> Iterator[None]:
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(_LATENCY.open("wb", buffering=0)).write(bytes(4))
        yield


def _leaves_time() -> bool:
    try:
        return int(_LIMIT.read_text()) >= 0
    except (OSError, ValueError):
        return False


def _put_first(pid: int) -> bool:
    if _count_threads(pid) > _MOST_THREADS:
        return False
    return _each_thread(pid, lambda thread: os.sched_setscheduler(thread, _POLICY, os.sched_param(_TIMED)))


def _count_threads(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def _watch_first() -> bool:
    """This thread alone, not what it starts: our clock would be late where many wait, and call an honest one a lie."""
    try:
        os.sched_setscheduler(0, _POLICY | os.SCHED_RESET_ON_FORK, os.sched_param(_WATCHING))
    except OSError:
        return False
    return True


def _put_all_back(pids: Sequence[int]) -> None:
    for pid in pids:
        _each_thread(pid, _put_back)


def _put_back(thread: int) -> None:
    if os.sched_getscheduler(thread) == _POLICY:
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


def _each_thread(pid: int, change: Callable[[int], None]) -> bool:
    """Whether the system permitted it for all of them; a thread that ends meanwhile is none."""
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                change(int(thread.name))
    except OSError:
        return False
    return True
