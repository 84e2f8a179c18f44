"""A view of files for an untrusted candidate, without privileges: what it must read, one folder to write, nothing else.

Landlock (Linux 5.13, Documentation/userspace-api/landlock.rst) refuses all files but those named, also where mount
namespaces are not permitted: the user's home folder with its keys, ``/tmp``, other checkouts. Looking a path up stays
possible (``stat``), and so does what is open already. Device nodes are named one by one; control calls (``ioctl``) on
them are left alone, since drivers of accelerators are made of them.
"""

import contextlib
import ctypes
import os
import pwd
import stat
import sys
from pathlib import Path

from . import linux
from .hiding import SHOWN

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store",
    "/run/opengl-driver", "/run/current-system", "/proc", "/sys",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nsswitch.conf",
    "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/nvidia",
    "/etc/OpenCL",
)  # fmt: skip
"""What programs and drivers read. Of ``/etc`` only what holds no secret."""
DEVICES = ("null", "zero", "full", "random", "urandom", "nvidia*", "nvidia-caps/*", "dri/*", "kfd", "dxg")
"""Nodes under ``/dev`` that may be written, too."""
PLACES = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "PYTHONPATH", "PATH", "SDKROOT")
PREFIXES = ("CONDA_PREFIX", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH", "TRITON_LIBCUDA_PATH")
"""Variables that name more places to read: lists of folders, and folders."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls, the same on every architecture."""
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""Rights to files by version: everything but ``ioctl``, which came with the fifth."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def version() -> int:
    """Of the kernel's Landlock; 0 where it has none, or it is switched off."""
    try:
        return _call(_CREATE, None, 0, _VERSION)
    except OSError:
        return 0


def wall_in(scratch: str) -> None:
    """Let this thread, and all that it starts, read what computing needs and write in ``scratch``; for good.

    Its process may name its threads, too; a child of it may not, so whoever needs that is walled in by itself.

    Raises:
        OSError: the kernel has no such thing, or it is switched off.
    """
    handled = _HANDLED[min(_call(_CREATE, None, 0, _VERSION), max(_HANDLED))]
    ruleset = _Ruleset(handled_access_fs=handled)
    rules = _call(_CREATE, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    try:
        for path in readable():
            _allow(rules, path, _READ)
        for path in _devices():
            _allow(rules, path, (_READ | _WRITE_FILE | _TRUNCATE) & handled)
        # Drivers of accelerators name their threads there, and start none that they cannot name.
        _allow(rules, "/proc/self/task", (_READ | _WRITE_FILE | _TRUNCATE) & handled)
        _allow(rules, scratch, handled)
        linux.no_new_privileges()
        _call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def readable() -> list[str]:
    """Files and folders that this process may go on to read: the system, Python, this package, what is loaded."""
    listed = [part for name in PLACES for part in os.environ.get(name, "").split(os.pathsep)]
    named = [os.environ.get(name, "") for name in PREFIXES]
    environment_paths = [path for path in (*listed, *named) if Path(path).is_absolute() and not _is_home(path)]
    python = [*sys.path, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, sys.executable]
    paths = [*SYSTEM, *environment_paths, *python, *_package(), *_shown(), *_loaded()]
    return [path for path in dict.fromkeys(paths) if Path(path).is_absolute() and path != "/"]


def _is_home(path: str) -> bool:
    """Whether it is a whole home folder, or more: no variable makes that readable."""
    homes = [Path("/root"), Path.home(), Path(_own_home()), *Path("/home").glob("*")]
    return any(home != Path("/") and home.resolve().is_relative_to(Path(path).resolve()) for home in homes)


def _own_home() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    return "/"


def _package() -> list[str]:
    """What can be imported of this package: in a checkout there is more beside it."""
    root = Path(__file__).resolve().parents[2]
    return [str(path) for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]


def _shown() -> list[str]:
    artifacts = os.environ.get("KERNELSWARM_ARTIFACTS", "")
    return [artifacts, *(str(Path(artifacts).parent / name) for name in SHOWN)] if artifacts else []


def _loaded() -> list[str]:
    """Files that are mapped: libraries may lie anywhere, and are opened once more to be looked into."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        return sorted(
            {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6 and fields[5][0] == "/"}
        )
    return []


def _devices() -> list[str]:
    return sorted(str(path) for pattern in DEVICES for path in Path("/dev").glob(pattern))


def _allow(rules: int, path: str, access: int) -> None:
    """Add a rule for ``path``; one that is not there needs none."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            access &= _OF_A_FILE
        rule = _PathBeneath(allowed_access=access, parent_fd=opened)
        _call(_ADD, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


def _call(number: int, *arguments: object) -> int:
    if sys.platform != "linux":
        raise OSError("Landlock needs Linux")
    c_arguments = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *c_arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result
