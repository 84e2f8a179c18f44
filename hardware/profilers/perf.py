"""Counts what a running process does between two moments: the processor's counters where they are to be had, and the
kernel's own (page faults, context switches, time on a core), which always are."""

import contextlib
import os
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ...schemas import Counters
from .perf_event import EVENTS, explain, open_counter, read_counter


@lru_cache(maxsize=1)
def why_no_hardware_counters() -> str:
    """Why this machine gives no instructions and cycles, as one sentence; empty if it does. Found out once."""
    try:
        os.close(open_counter("instructions", 0))
    except OSError as error:
        return explain(error)
    return ""


class CounterSession:
    """Counters of one process and all its threads.

    Call :meth:`start`, let the process make its calls, call :meth:`stop` while it is still there. Values are per
    call: ``page_faults`` (served without a disk), ``major_faults``, ``context_switches``, ``cpu_ms`` (time on a core,
    all threads together), and with hardware counters ``cycles``, ``instructions``, ``cache_references``,
    ``cache_misses``, ``branch_misses`` (user mode).
    """

    def __init__(self) -> None:
        self.unavailable = why_no_hardware_counters()
        """Why there are no hardware counters; empty if there are."""
        self._pid = 0
        self._before: dict[str, float] = {}
        self._threads: dict[int, _Thread] = {}
        self._open: dict[str, list[int]] = {}

    def start(self, pid: int) -> None:
        """Begin to count the process ``pid``.

        Raises:
            ProcessLookupError: there is no such process.
        """
        self.close()
        self._pid = pid
        self._open = self._hardware(pid) if not self.unavailable else {}
        self._before, self._threads = _process(pid), _all_threads(pid)

    def stop(self, calls: int = 1) -> Counters | None:
        """Counts since :meth:`start`, divided by ``calls``; None if the process has ended."""
        try:
            values = self._software()
        except ProcessLookupError:
            self.close()
            return None
        hardware = self._read()
        self.close()
        values |= hardware
        source = "perf+procfs" if hardware else "procfs"
        return Counters(source=source, values={name: value / calls for name, value in values.items()})

    def close(self) -> None:
        """Give the counters back; :meth:`stop` does so too."""
        for descriptors in self._open.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._open = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _hardware(self, pid: int) -> dict[str, list[int]]:
        # A counter follows the threads that its thread starts later, not those that exist: each one gets its own.
        threads = _thread_ids(pid)
        opened: dict[str, list[int]] = {}
        for event in EVENTS:
            for thread in threads:
                # A processor may lack one event, and a thread may have ended since it was listed.
                with contextlib.suppress(OSError):
                    opened.setdefault(event, []).append(open_counter(event, thread))
        return opened

    def _read(self) -> dict[str, float]:
        counts = {event: [read_counter(fd) for fd in descriptors] for event, descriptors in self._open.items()}
        return {
            event: sum(count for count in readings if count is not None)
            for event, readings in counts.items()
            if any(count is not None for count in readings)
        }

    def _software(self) -> dict[str, float]:
        after, threads = _process(self._pid), _all_threads(self._pid)
        values = {name: after[name] - self._before[name] for name in after}
        none = _Thread(0, 0)
        values["context_switches"] = sum(
            now.switches - self._threads.get(thread, none).switches for thread, now in threads.items()
        )
        values["cpu_ms"] = sum(
            (now.cpu_ns - self._threads.get(thread, none).cpu_ns) / 1e6 for thread, now in threads.items()
        )
        return values


class _Thread:
    __slots__ = ("cpu_ns", "switches")

    def __init__(self, switches: int, cpu_ns: int) -> None:
        self.switches = switches
        self.cpu_ns = cpu_ns


def _process(pid: int) -> dict[str, float]:
    # The name in parentheses may hold anything, so fields are counted from its end.
    fields = _read_proc(pid, "stat").rpartition(")")[2].split()
    return {"page_faults": float(fields[7]), "major_faults": float(fields[9])}


def _all_threads(pid: int) -> dict[int, _Thread]:
    threads = {}
    for thread in _thread_ids(pid):
        # A thread that ends meanwhile is left out.
        with contextlib.suppress(ProcessLookupError):
            threads[thread] = _thread(pid, thread)
    return threads


def _thread(pid: int, thread: int) -> _Thread:
    status = _read_proc(pid, f"task/{thread}/status")
    switches = sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches:" in line)
    return _Thread(switches, int(_read_proc(pid, f"task/{thread}/schedstat").split()[0]))


def _thread_ids(pid: int) -> list[int]:
    try:
        return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None


def _read_proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
