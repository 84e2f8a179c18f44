"""The system calls of isolation that Python does not wrap. Each raises OSError where the kernel refuses."""

import ctypes
import os
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

LESS_URGENT = 10
"""Niceness of what others should not wait for: a tenth of a core's share beside a process with none."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 2
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MNT_DETACH = 2
_MS_PRIVATE = 0x40000
_MS_NOSUID = 2
_MS_NODEV = 4
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    ]


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Does nothing where there is no such thing."""
    if sys.platform == "linux":
        parent = os.getppid()
        _prctl(_PR_SET_PDEATHSIG, 9)
        if os.getppid() != parent:
            # It ended before the call, so nothing would ever kill us.
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, so that they can be found and killed."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def drop_capabilities() -> None:
    """Of what root may, keep reading anybody's files: Python may lie in another user's folder."""
    _need_linux()
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    kept = 1 << _CAP_DAC_READ_SEARCH
    permitted = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, permitted), "capget")
    low = permitted[1] & kept
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, 0, 0, 0)), "capset")


def no_new_privileges() -> None:
    """Nothing that is executed from here on gains rights; a precondition of seccomp without root."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_seccomp_filter(program: int) -> None:
    """Install the ``struct sock_fprog`` at this address."""
    _need_linux()
    zero = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    _check(_libc.prctl(_PR_SET_SECCOMP, mode, ctypes.c_ulong(program), zero, zero), "seccomp")


def unshare(flags: int) -> None:
    """Leave namespaces that are shared with the parent (for ``CLONE_NEWPID``: the next child does)."""
    _need_linux()
    _check(_libc.unshare(flags), "unshare")


def enter(namespace: int, flag: int) -> None:
    """Enter the namespace behind an open file of ``/proc/*/ns``."""
    _check(_libc.setns(namespace, flag), "setns")


def mounts_are_private() -> None:
    """Keep what is mounted from here on inside this mount namespace."""
    _mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def everything_read_only() -> None:
    """Make every mount of this mount namespace read-only."""
    read_only("/")


def mount_memory(folder: str, size: int) -> None:
    """Mount an empty file system in memory of at most ``size`` bytes on ``folder``."""
    _mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode=700".encode())


def mount_processes(folder: str = "/proc") -> None:
    """Show in ``folder`` the processes of this PID namespace only."""
    _mount(b"proc", os.fsencode(folder), b"proc", _MS_NOSUID | _MS_NODEV, None)


def mount_again(source: str, target: str, *, whole: bool = True) -> None:
    """Show what lies at ``source`` at ``target`` too, which must exist; ``whole``: with what is mounted in there."""
    _mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND | (_MS_REC if whole else 0), None)


def read_only(folder: str) -> None:
    """Make the mounts at and under ``folder`` read-only."""
    attributes = _MountAttributes(set=_MOUNT_ATTR_RDONLY)
    address, size = ctypes.byref(attributes), ctypes.sizeof(attributes)
    _check(
        _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(folder), _AT_RECURSIVE, address, size), "mount_setattr"
    )


def become_root(folder: str) -> None:
    """Make the mount at ``folder`` the root of this mount namespace, and let go of what was there."""
    os.chdir(folder)
    # The old root is stacked on the new one, and comes off first (pivot_root(2), "pivot_root(".", ".")").
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    _check(_libc.mount(source, target, kind, ctypes.c_ulong(flags), data), f"mount on {os.fsdecode(target)}")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), "prctl")


def _need_linux() -> None:
    if sys.platform != "linux":
        raise OSError("namespaces need Linux")


def _check(result: int, operation: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{operation}: {os.strerror(number)}")
