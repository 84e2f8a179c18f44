"""Imports torch once, then forks an ordinary process for each order: no finished file waits seconds for that import.

The same layers are around such a process as around the harness's (:mod:`..processes.sandbox`). What runs behind them is
the text of :mod:`.program` as ``__main__``; of this package nothing is loaded there that a file could import or find.
"""

import gc
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from types import CodeType, ModuleType
from typing import NoReturn

from ..processes import fork_server, sandbox, wire
from ..processes.messages import Hello, Spawn
from ..processes.reaped_child import run_reaper

PROGRAM = Path(__file__).with_name("program.py")
OWN = {str(__package__).partition(".")[0], "msgspec"}
"""Packages that no user's program has because of us."""


def main(descriptor: int) -> None:
    """Serve orders on the socket ``descriptor`` until its other end is gone."""
    fork_server.serve(descriptor, Spawn, _load)


def _load() -> fork_server.Child:
    import torch  # noqa: F401

    program = compile(PROGRAM.read_text(encoding="utf-8"), "<ordinary process>", "exec")
    return lambda request, descriptors, layers: _fork_program(program, request, descriptors, layers)


def _fork_program(program: CodeType, request: Spawn, descriptors: list[int], layers: tuple[str, ...]) -> NoReturn:
    def work(connection: socket.socket, layers: tuple[str, ...]) -> None:
        os.chdir(request.scratch)
        layers += sandbox.limit(request)
        wire.send(connection, Hello(isolation=("process", *layers)))
        _run(program, connection.detach())

    os.environ |= request.environment
    run_reaper(request, descriptors, layers, work)


def _run(program: CodeType, descriptor: int) -> None:
    """Become the program, as if the interpreter had been started with it."""
    gc.unfreeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None  # torch asked for it before the fork, and the module remembers
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]
    sys.path.insert(0, "")
    sys.argv = [""]
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(program, module.__dict__)
    module.main(descriptor)


if __name__ == "__main__":
    main(int(sys.argv[1]))
