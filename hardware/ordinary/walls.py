"""Puts the walls around an ordinary process, then becomes it: ``python -m ...walls DESCRIPTOR MEMORY DEVICE TRUST``.

The same layers as around the harness's processes (:mod:`..processes.sandbox`). What runs behind them is a fresh
interpreter with the text of :mod:`.program`, so nothing of the package is loaded in it. It installs the system call
filter itself, once torch is imported: the filter forbids to start programs, and becoming another one is that. Where
kernels are compiled in the process (Triton's) programs stay allowed, and the filter that holds before is the last one.
"""

import contextlib
import os
import platform
import sys
from pathlib import Path
from typing import NoReturn

from ..processes import linux, namespaces, sandbox, seccomp
from ..processes.jail import relay
from ..processes.messages import Spawn
from .trust import CONFINED, TRUSTED

PROGRAM = Path(__file__).with_name("program.py")
TORCH_BYTES = 16 << 30
"""Address space that torch and its threads' stacks reserve before the user's code takes any."""


def main(descriptor: int, memory: int, device: str, trust: str) -> NoReturn:
    """Shut off, and run the program in the working folder; ``trust`` as in :mod:`.trust`."""
    linux.die_with_parent()
    request = Spawn(
        role="ordinary",
        scratch=str(Path.cwd()),
        memory_bytes=memory + TORCH_BYTES,
        threads=0,
        confine=trust != TRUSTED,
        device=device,
        programs=True,
    )
    layers = ["process", *namespaces.leave_network()]
    with contextlib.suppress(OSError):
        linux.unshare(linux.CLONE_NEWPID)
        layers.append("pidns")
    relay(lambda: _first_process(descriptor, request, trust, layers))


def _first_process(descriptor: int, request: Spawn, trust: str, layers: list[str]) -> NoReturn:
    """The first process of the new PID namespace, which none of the others outlives."""
    linux.die_with_parent()
    layers += sandbox.separate_files(request)
    # Signals that end a process do not end the first one of a namespace: a candidate that aborts must not hang.
    relay(lambda: _become_program(descriptor, request, trust, layers))


def _become_program(descriptor: int, request: Spawn, trust: str, layers: list[str]) -> NoReturn:
    linux.die_with_parent()
    os.chdir(request.scratch)
    layers += sandbox.wall_in(request)
    layers += sandbox.limit(request)
    code = ""
    if trust == CONFINED:
        layers = [layer for layer in layers if layer != "seccomp_but_programs"]
        with contextlib.suppress(OSError):
            code = seccomp.filter_code(platform.machine(), os.getpid()).hex()
            layers.append("seccomp")
    os.set_inheritable(descriptor, True)
    text = PROGRAM.read_text(encoding="utf-8")
    os.execv(sys.executable, [sys.executable, "-c", text, str(descriptor), "+".join(layers), code])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
