"""The layers around a child, outermost first; each that holds has a name that the reports carry.

``userns`` and ``netns`` (no network) hold for all children; ``pidns`` (sees and signals only its own processes; all of
them die with their reaper), ``mountns`` (files read-only outside the scratch folder), ``procfs`` (``/proc`` shows only
its own processes), ``landlock`` (of files only what computing needs, the scratch folder alone for writing) and
``seccomp`` per child. Where the kernel refuses one, the rest still hold and the name is missing from the list.
"""

import contextlib
import os
import resource
from pathlib import Path

from . import landlock, linux, seccomp
from .hiding import hide_records
from .messages import HOST, Spawn

SCRATCH_BYTES = 1 << 30
MOST_FILE_BYTES = 16 << 30
"""Largest file a child may write; outputs travel in memory files, which count."""


class ProcessSpaces:
    """Gives each next child a PID namespace of its own, in which it is the first process."""

    def __init__(self) -> None:
        self._own: int | None = None
        with contextlib.suppress(OSError):
            self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> tuple[int, bool]:
        """Fork: the child's id (0 in the child), and whether the child has a namespace of its own.

        The child has no way back: the namespace of this process is not open there.
        """
        apart = self._next_apart()
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid and apart and self._own is not None:
                linux.enter(self._own, linux.CLONE_NEWPID)
        if pid == 0 and self._own is not None:
            os.close(self._own)
        return pid, apart

    def _next_apart(self) -> bool:
        if self._own is None:
            return False
        try:
            linux.unshare(linux.CLONE_NEWPID)
        except OSError:
            return False
        return True


def wall_in(request: Spawn) -> tuple[str, ...]:
    """Let this process, an untrusted candidate, see nothing that computing does not need.

    After its mounts, since it can mount nothing from then on.
    """
    if not request.confine:
        return ()
    try:
        landlock.wall_in(request.scratch)
    except OSError:
        return ()
    return ("landlock",)


def separate_files(request: Spawn) -> tuple[str, ...]:
    """Give this process and its children their own view of the file system; before they are forked.

    For an untrusted candidate everything is read-only but its scratch folder, which is empty and vanishes with it.
    """
    try:
        linux.unshare(linux.CLONE_NEWNS)
        linux.mounts_are_private()
        if request.confine:
            linux.everything_read_only()
            hide_records(request.scratch)
            linux.mount_memory(request.scratch, SCRATCH_BYTES)
    except OSError:
        return ()
    try:
        linux.mount_processes()
    except OSError:
        return ("mountns",)
    return ("mountns", "procfs")


def limit(request: Spawn, *, counts: bool = False) -> tuple[str, ...]:
    """Set the resource limits of this process, take root's rights from an untrusted candidate, and give it a system
    call filter. Cannot be undone.

    ``counts``: it is profiled by counters of an accelerator, which a driver may reserve for root's rights.
    """
    # A driver of an accelerator reserves address space without end; what a candidate takes of memory is then bounded
    # by what it writes to.
    own = _address_space() + request.memory_bytes + request.stacks_bytes
    space = own if request.device == HOST else resource.RLIM_INFINITY
    for kind, value in (
        (resource.RLIMIT_AS, space),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MOST_FILE_BYTES),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))
    if not request.confine:
        return ("rlimits",)
    if not counts:
        with contextlib.suppress(OSError):
            linux.drop_capabilities()
    try:
        seccomp.confine(programs=request.programs, sockets=request.device != HOST)
    except OSError:
        return ("rlimits",)
    return ("rlimits", "seccomp_but_programs" if request.programs else "seccomp")


def _address_space() -> int:
    """Bytes mapped already: what torch takes is not the candidate's."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 4 << 30
    return pages * resource.getpagesize()
