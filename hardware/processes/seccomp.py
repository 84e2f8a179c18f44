"""A system call filter for candidates: computing is allowed, starting processes and touching others is not.

Neither is what outlives a process or goes on without it: memory and queues that others find by a number, modes and
times of files that it may only read, and timers and files whose signal would let a process go on that was stopped. Nor
is going before others: where everybody is root, real-time priority would be had for the asking, and what it is compared
with has none. Nor are signals to others, by whatever call, and limits of others. Where no driver of an accelerator
needs sockets there are none but pairs: no wall around files keeps anybody from a socket that a daemon listens on.

A deny-list in classic BPF (Linux, Documentation/userspace-api/seccomp_filter.rst). It needs no privilege, so it holds
also where namespaces are not permitted. A refused call fails with EPERM and the candidate may go on.
"""

import ctypes
import errno
import os
import platform
import struct

from . import linux

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL = 0x80000000
_CLONE_THREAD = 0x00010000
_AF_UNIX, _NO_FAMILY = 1, 0xFFFFFFFF
_X32_BIT = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in struct seccomp_data; the arguments' low halves, both architectures being little-endian."""

_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY = 8, 10, 15, 1024, 1026
"""Of fcntl: what has the kernel send a signal that its process chooses, or to a process that it chooses. One of them
lets a stopped process go on."""
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
"""Of ioctl: the same, for sockets."""

_NEW = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsmount": 432, "pidfd_open": 434, "pidfd_getfd": 438, "mount_setattr": 442, "fchmodat2": 452, "setxattrat": 463,
}  # fmt: skip
_X86_64 = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "tkill": 200, "ptrace": 101, "process_vm_readv": 310,
    "process_vm_writev": 311, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248,
    "request_key": 249, "timer_create": 222, "mq_open": 240, "mq_notify": 244, "shmget": 29, "shmat": 30, "semget": 64,
    "msgget": 68, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "ioprio_set": 251,
    "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314, "setpriority": 141,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
    "reboot": 169, "open_by_handle_at": 304, "personality": 135, "settimeofday": 164, "clock_settime": 227,
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188, "lsetxattr": 189,
    "fsetxattr": 190, **_NEW,
}  # fmt: skip
_AARCH64 = {
    "execve": 221, "execveat": 281, "tkill": 130, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
    "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "bpf": 280,
    "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219, "add_key": 217, "request_key": 218,
    "timer_create": 107, "mq_open": 180, "mq_notify": 184, "shmget": 194, "shmat": 196, "semget": 190, "msgget": 186,
    "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "ioprio_set": 30,
    "sched_setscheduler": 119, "sched_setparam": 118, "sched_setattr": 274, "setpriority": 140,
    "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "reboot": 142,
    "open_by_handle_at": 265, "personality": 92, "settimeofday": 170, "clock_settime": 112, "fchmod": 52,
    "fchmodat": 53, "fchown": 55, "fchownat": 54, "utimensat": 88, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
    **_NEW,
}  # fmt: skip
_SPECIAL_X86_64 = {
    "clone": 56, "clone3": 435, "kill": 62, "tgkill": 234, "socket": 41, "fcntl": 72, "ioctl": 16, "prlimit64": 302,
}  # fmt: skip
_SPECIAL_AARCH64 = {
    "clone": 220, "clone3": 435, "kill": 129, "tgkill": 131, "socket": 198, "fcntl": 25, "ioctl": 29, "prlimit64": 261,
}  # fmt: skip
_MACHINES = {
    "x86_64": (0xC000003E, _X86_64, _SPECIAL_X86_64),
    "aarch64": (0xC00000B7, _AARCH64, _SPECIAL_AARCH64),
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


_STARTING = ("fork", "vfork", "execve", "execveat")
_MARKING = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
)
"""Leave notes for later processes at files that can only be read. Linkers make what they write executable."""


def confine(*, programs: bool = False, sockets: bool = True) -> None:
    """Put this process and its threads behind the filter, for good.

    ``programs`` leaves starting programs allowed, ``sockets`` those of this machine beside pairs.

    Raises:
        OSError: the kernel or the machine has no such filter.
    """
    code = filter_code(platform.machine(), os.getpid(), programs=programs, sockets=sockets)
    program = _Program(length=len(code) // 8, instructions=code)
    linux.no_new_privileges()
    linux.set_seccomp_filter(ctypes.addressof(program))


def filter_code(machine: str, pid: int, *, programs: bool = False, sockets: bool = True) -> bytes:
    """The filter for the process ``pid``, as instructions of the kernel; as :func:`confine`.

    Raises:
        OSError: there is none for this machine.
    """
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}")
    arch, refused, special = _MACHINES[machine]
    if programs:
        refused = {name: number for name, number in refused.items() if name not in (*_STARTING, *_MARKING)}
    clone = [] if programs else _allowed_if(special["clone"], _ANY_BIT, _CLONE_THREAD)
    code = [
        _step(_LOAD, _ARCH), _step(_EQUAL, arch, 1, 0), _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER), _step(_AT_LEAST, _X32_BIT, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM),
        # glibc falls back from clone3, whose flags lie in memory that a filter cannot read, to clone.
        _step(_EQUAL, special["clone3"], 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS),
        *clone,
        *_allowed_if(special["kill"], _EQUAL, pid),
        *_allowed_if(special["tgkill"], _EQUAL, pid),
        *_allowed_if(special["socket"], _EQUAL, _AF_UNIX if sockets else _NO_FAMILY),
        *_allowed_if(special["prlimit64"], _EQUAL, 0),
        *_refused_where(special["fcntl"], _F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY),
        *_refused_where(special["ioctl"], _FIOSETOWN, _SIOCSPGRP),
    ]  # fmt: skip
    for number in sorted(refused.values()):
        code += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM)]
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _allowed_if(number: int, test: int, value: int) -> list[bytes]:
    """Steps that end the filter for system call ``number``: allowed if its first argument passes, else refused."""
    return [
        _step(_EQUAL, number, 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(test, value, 0, 1),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _ERRNO | errno.EPERM),
    ]


def _refused_where(number: int, *values: int) -> list[bytes]:
    """Steps that end the filter for system call ``number``: refused if its second argument is one of ``values``."""
    tests = [step for value in values for step in (_step(_EQUAL, value, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM))]
    end = [_step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, 1 + len(tests) + len(end)), _step(_LOAD, _SECOND_ARGUMENT), *tests, *end]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
