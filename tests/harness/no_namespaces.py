"""Runs a Python program where no namespace can be made, as in most containers: ``no_namespaces.py PROGRAM ...``."""

import ctypes
import os
import platform
import sys

from kernelswarm.hardware.processes import linux, seccomp

REFUSED = ("unshare", "setns", "mount", "umount2", "mount_setattr", "pivot_root")


def refuse() -> None:
    """Refuse these system calls to this process and all that it starts."""
    arch, numbers, _ = seccomp._MACHINES[platform.machine()]
    step = seccomp._step
    code = [step(seccomp._LOAD, seccomp._ARCH), step(seccomp._EQUAL, arch, 1, 0), step(seccomp._RETURN, seccomp._KILL)]
    code.append(step(seccomp._LOAD, seccomp._NUMBER))
    for name in REFUSED:
        code += [step(seccomp._EQUAL, numbers[name], 0, 1), step(seccomp._RETURN, seccomp._ERRNO | 1)]
    text = b"".join([*code, step(seccomp._RETURN, seccomp._ALLOW)])
    linux.no_new_privileges()
    program = seccomp._Program(length=len(text) // 8, instructions=text)
    linux.set_seccomp_filter(ctypes.addressof(program))


if __name__ == "__main__":
    refuse()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
