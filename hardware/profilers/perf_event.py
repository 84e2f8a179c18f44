"""``perf_event_open`` through ctypes: one counter on one thread and on those it will start."""

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

EVENTS = {
    "cycles": (0, 0),
    "instructions": (0, 1),
    "cache_references": (0, 2),
    "cache_misses": (0, 3),
    "branch_misses": (0, 5),
}
"""Type and configuration of each counter, linux/perf_event.h."""

_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_SIZE = 128
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_ENABLED_AND_RUNNING_TIME = 1 | 2
_CLOSE_ON_EXEC = 1 << 3


def open_counter(event: str, thread: int) -> int:
    """Start counting ``event`` in ``thread`` (0: the calling one), in user mode; returns a file descriptor.

    Raises:
        OSError: the kernel, the processor or the hypervisor does not offer it, or not to this user.
    """
    number = _SYSTEM_CALL.get(platform.machine())
    if sys.platform != "linux" or number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    kind, configuration = EVENTS[event]
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    fields = struct.pack("IIQQQQQ", kind, _SIZE, configuration, 0, 0, _ENABLED_AND_RUNNING_TIME, flags)
    attributes = ctypes.create_string_buffer(fields, _SIZE)
    call = ctypes.CDLL(None, use_errno=True).syscall
    descriptor = int(call(ctypes.c_long(number), attributes, thread, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC)))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


def read_counter(descriptor: int) -> float | None:
    """The count so far, scaled up if the processor had to share its counters out; None if it never ran."""
    count, enabled, running = struct.unpack("QQQ", os.read(descriptor, 24))
    return count * enabled / running if running else None


def explain(error: OSError) -> str:
    """Why a counter could not be opened, as a sentence with the way out."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"perf_event_paranoid={_paranoid()} forbids it: `sysctl kernel.perf_event_paranoid=2` or CAP_PERFMON"
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "the processor's counters are not offered here (a virtual machine without a virtual PMU)"
    if error.errno == errno.ENOSYS:
        return f"there is no perf_event_open on {sys.platform} {platform.machine()}, or a seccomp filter hides it"
    return f"perf_event_open failed: {error.strerror}"


def _paranoid() -> str:
    try:
        return Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
