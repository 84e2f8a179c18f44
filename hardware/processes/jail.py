"""Runs a compiler where it sees its toolchain and its own folder, and nothing else: no other file, process or network.

A program of its own, run by path: ``python -I -S jail.py REPORT FOLDER READABLE [filtered] -- COMMAND...``. ``FOLDER``
can be written, what ``READABLE`` lists (separated by ``os.pathsep``) can be read; ``filtered``: the command is a
candidate's own code, which gets a candidate's system call filter, but may start programs. The names of the layers in
force go to the file descriptor ``REPORT``, separated by ``+``: where the kernel refuses one, the rest still holds.
Nothing of the package but the system calls is imported, so it starts in a few hundredths of a second.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from . import linux, namespaces, seccomp
else:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from processes import linux, namespaces, seccomp

    sys.path.pop(0)

ROOT = ".root"
"""Where the new root is made, inside the folder; gone with the mount namespace."""
ROOT_BYTES = 16 << 20


FILTERED = "filtered"


def main(report: int, folder: str, readable: list[str], command: list[str], *, filtered: bool = False) -> NoReturn:
    """Shut off, run ``command`` in ``folder``, exit as it did."""
    linux.die_with_parent()
    layers = ["process", *namespaces.leave_network()]
    with contextlib.suppress(OSError):
        linux.unshare(linux.CLONE_NEWPID)
        layers.append("pidns")
    relay(lambda: _first_process(report, folder, readable, command, layers, filtered))


def _first_process(
    report: int, folder: str, readable: list[str], command: list[str], layers: list[str], filtered: bool
) -> NoReturn:
    """The first process of the new PID namespace, which none of the others outlives."""
    linux.die_with_parent()
    with contextlib.suppress(OSError):
        _see_only(folder, readable)
        layers.append("toolroot")
    os.chdir(folder)
    if filtered:
        with contextlib.suppress(OSError):
            linux.drop_capabilities()
        with contextlib.suppress(OSError):
            seccomp.confine(programs=True)
            layers.append("seccomp_but_programs")
    os.write(report, "+".join(layers).encode())
    os.close(report)
    # Signals that end a process do not end the first one of a namespace: a compiler that aborts must not hang.
    relay(lambda: _execute(command))


def _execute(command: list[str]) -> NoReturn:
    linux.die_with_parent()
    with contextlib.suppress(OSError):
        linux.no_new_privileges()
    os.execvp(command[0], command)


def relay(be_child: Callable[[], NoReturn]) -> NoReturn:
    """Fork, and exit as the child does."""
    pid = os.fork()
    if pid == 0:
        try:
            be_child()
        finally:
            os._exit(127)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _see_only(folder: str, readable: list[str]) -> None:
    """Make a root of ``readable`` and ``folder``, and move there.

    Raises:
        OSError: the kernel does not permit it; then everything is as it was.
    """
    root = Path(folder, ROOT)
    root.mkdir(exist_ok=True)
    try:
        linux.unshare(linux.CLONE_NEWNS)
        linux.mounts_are_private()
        linux.mount_memory(str(root), ROOT_BYTES)
    except OSError:
        root.rmdir()
        raise
    for path in sorted(set(readable), key=lambda path: (path.count("/"), path)):
        _show(path, root)
    own, processes = Path(f"{root}{folder}"), Path(root, "proc")
    own.mkdir(parents=True, exist_ok=True)
    processes.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        linux.mount_processes(str(processes))
    linux.read_only(str(root))
    linux.mount_again(folder, str(own), whole=False)
    linux.become_root(str(root))


def _show(path: str, root: Path) -> None:
    """Make ``path`` readable under ``root``: a link as a link, the rest by mounting it once more."""
    there = Path(f"{root}{path}")
    if not os.path.lexists(path) or os.path.lexists(there):
        return
    there.parent.mkdir(parents=True, exist_ok=True)
    if Path(path).is_symlink():
        there.symlink_to(Path(path).readlink())
        return
    if Path(path).is_dir():
        there.mkdir(exist_ok=True)
    else:
        there.touch()
    linux.mount_again(path, str(there))


if __name__ == "__main__":
    separator = sys.argv.index("--")
    is_filtered = FILTERED in sys.argv[4:separator]
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3].split(os.pathsep), sys.argv[separator + 1 :], filtered=is_filtered)
