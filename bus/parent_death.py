"""Runs a command that ends when the process that asked for it ends, even when that is killed with SIGKILL.

Executed as a script (``parent_death.py PARENT_PID COMMAND...``), never imported: it needs the standard library alone.
A small program of its own rather than a ``preexec_fn``, which is not safe in a process that has threads.

Linux: the kernel is asked to signal us when the parent's thread ends, then the command takes over this process.
Elsewhere: this process stays and watches its standard input, whose other end only the parent holds.
"""

import os
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1


def _tie_to(parent: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
    # The parent may have died before prctl: then nobody will ever signal us.
    if os.getppid() != parent:
        sys.exit(1)


def _watch(command: list[str]) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())

    def parent_is_gone() -> None:
        while os.read(0, 4096):  # unbuffered: a buffer's lock would be held when this process ends first
            pass
        child.terminate()

    threading.Thread(target=parent_is_gone, daemon=True).start()
    return child.wait()


def _main() -> int:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        _tie_to(parent)
        os.execv(command[0], command)
    return _watch(command)


if __name__ == "__main__":
    sys.exit(_main())
