"""Stops a process with all its threads, reads its memory, and lets it go on, without its cooperation."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Sequence

import numpy

from . import placement

_libc = ctypes.CDLL(None, use_errno=True)
_LARGEST_READ = 1 << 30
_POLL_SECONDS = 20e-6


class Unreadable(Exception):
    """Why outputs cannot be read; a clause."""


class Frozen:
    """One process, which need not be a child of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        """Its process id as this one sees it."""
        self._threads: dict[str, int] = {}
        """Descriptors of what the system says of each thread."""
        self._stats: dict[str, list[bytes]] = {}
        """What it said last, from the thread's state on."""
        self._allowed: dict[str, set[int]] = {}
        """The cores of threads that were placed."""
        self._buffer = bytearray()

    def close(self) -> None:
        """Let go of the descriptors; the process stays as it is."""
        for file in self._threads.values():
            os.close(file)
        self._threads = {}

    def stop(self, seconds: float) -> bool:
        """Stop it; whether every thread stood still in time.

        The signal goes to each thread: those that run are interrupted at once, and the others run no more. Sent to the
        process alone it would wait until the system finds time for one of them, and the rest would go on meanwhile.

        Raises:
            ProcessLookupError: it has ended.
        """
        os.kill(self.pid, signal.SIGSTOP)
        for thread in self._threads:
            _libc.tgkill(self.pid, int(thread), signal.SIGSTOP)
        deadline = time.monotonic() + seconds
        while not self._stands_still():
            if time.monotonic() > deadline:
                return False
            # Whoever still has to be stopped may need this core for it.
            time.sleep(_POLL_SECONDS)
        return True

    def place(self) -> None:
        """Give each thread of the stopped process a core to start on, until :meth:`go_on`."""
        self._allowed = placement.place({thread: self._stats[thread] for thread in self._threads})

    def go_on(self) -> None:
        """Let it run; threads that were placed may leave their cores again.

        Raises:
            ProcessLookupError: it has ended.
        """
        os.kill(self.pid, signal.SIGCONT)
        placement.release(self._allowed)
        self._allowed = {}

    def _stands_still(self) -> bool:
        # A thread that is stopped starts none, so what is listed before the look holds after it.
        try:
            listed = os.listdir(f"/proc/{self.pid}/task")  # noqa: PTH208 - it is asked hundreds of times a second
        except FileNotFoundError as error:
            # It was killed and reaped after it had got the signal: at the end of a session, for one.
            raise ProcessLookupError(f"process {self.pid} has ended") from error
        for thread in self._threads.keys() - set(listed):
            self._forget(thread)
        # All are looked at, and with that get their signal: one that is busy in the kernel hides none behind it.
        stopped = [self._is_stopped(thread) for thread in listed]
        return all(stopped)

    def runs_beside(self) -> bool:
        """Whether a thread other than the first one runs or waits for a core. It is asked between calls that count, so
        it takes little time, and leaves caches as they are.
        """
        for thread in os.listdir(f"/proc/{self.pid}/task"):  # noqa: PTH208
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if thread != str(self.pid) and placement.fields_of(self._stat(thread))[0] == b"R":
                    return True
        return False

    def _stat(self, thread: str) -> bytes:
        if thread not in self._threads:
            self._threads[thread] = os.open(f"/proc/{self.pid}/task/{thread}/stat", os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._threads[thread], 512, 0)

    def _is_stopped(self, thread: str) -> bool:
        try:
            text = self._stat(thread)
        except (FileNotFoundError, ProcessLookupError):
            # It ended in between, or the process did.
            self._forget(thread)
            os.kill(self.pid, 0)
            return False
        self._stats[thread] = placement.fields_of(text)
        if self._stats[thread][0] in (b"T", b"t", b"Z", b"X"):
            return True
        # New since it was stopped last, or something let it go on.
        _libc.tgkill(self.pid, int(thread), signal.SIGSTOP)
        return False

    def _forget(self, thread: str) -> None:
        if thread in self._threads:
            os.close(self._threads.pop(thread))
            self._stats.pop(thread, None)

    def read(self, address: int, size: int) -> memoryview:
        """Bytes of its memory, until the next are read: fresh memory would take longer than reading.

        Raises:
            Unreadable: some of them are not there, or not to be read.
        """
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        done = 0
        while done < size:
            count = _read(self.pid, self._buffer, done, address + done, min(size - done, _LARGEST_READ))
            if count <= 0:
                raise Unreadable(f"the memory at {address:#x} cannot be read: {os.strerror(ctypes.get_errno())}")
            done += count
        return memoryview(self._buffer)[:size]


class _Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def _read(pid: int, data: bytearray, position: int, address: int, size: int) -> int:
    local = _Range(ctypes.addressof(ctypes.c_char.from_buffer(data, position)), size)
    remote = _Range(address, size)
    arguments = (pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    count: int = _libc.process_vm_readv(*arguments)
    return count


def elements(
    process: Frozen, address: int, shape: Sequence[int], stride: Sequence[int], width: int
) -> bytes | memoryview:
    """The elements of a tensor in order, ``width`` bytes each, until the next are read.

    Raises:
        Unreadable: they are not there, or spread over far more memory than they take.
    """
    if 0 in shape:
        return b""
    if len(shape) != len(stride) or min((*shape, *stride), default=0) < 0:
        raise Unreadable(f"there is no tensor of shape {list(shape)} with strides {list(stride)}")
    count = int(numpy.prod(shape, dtype=object)) if shape else 1
    span = sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True)) + 1
    if span > MOST_SPREAD * count + SPREAD_ELEMENTS:
        raise Unreadable(f"its {count} elements are spread over {span}")
    data = process.read(address, span * width)
    if span == count and _is_contiguous(shape, stride):
        return data
    flat = numpy.frombuffer(data, dtype=f"V{width}")
    steps = tuple(step * width for step in stride)
    return numpy.lib.stride_tricks.as_strided(flat, tuple(shape), steps, writeable=False).tobytes()


MOST_SPREAD, SPREAD_ELEMENTS = 16, 1 << 20
"""Memory that is read for an output: so many times its elements, and so many elements more, at most."""


def _is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    expected = 1
    for extent, step in zip(reversed(shape), reversed(stride), strict=True):
        if extent != 1 and step != expected:
            return False
        expected *= extent
    return True
