"""Keeps Triton imported and forks a child for each candidate: none pays for the import, and none meets another.

The parent runs nothing of a candidate and never sees its text: that goes to the child over a channel of its own. Each
child has a reaper (:mod:`..processes.reaper`), no network, a PID namespace and files that it can only read outside its
scratch folder, as far as the kernel permits; the layers in force are in its first message.

Usage: ``python -m kernelswarm.hardware.languages._triton_parent DESCRIPTOR TARGET``; it serves the socket
``DESCRIPTOR`` until its other end is gone, and all its children end with it.
"""

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from ..processes import sandbox, wire
from ..processes.messages import Done, Hello, Spawn
from ..processes.reaped_child import run_reaper
from . import _triton_ahead
from ._triton_source import Order, Request


def main(descriptor: int, target: str) -> None:
    """Serve orders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before Triton: a process with threads may not leave its user namespace.
    layers = sandbox.leave_network()
    _triton_ahead.load(target)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    spaces = sandbox.ProcessSpaces()
    wire.send(control, Done())
    while True:
        try:
            order, descriptors = _next(control)
        except (EOFError, ConnectionError):
            return
        pid, apart = spaces.fork()
        if pid == 0:
            control.close()
            _keep(order, descriptors, (*layers, *(("pidns",) if apart else ())))
        wire.close_all(descriptors)


def _next(control: socket.socket) -> tuple[Order, list[int]]:
    return wire.receive(control, Order)


def _keep(order: Order, descriptors: list[int], layers: tuple[str, ...]) -> NoReturn:
    def work(connection: socket.socket, layers: tuple[str, ...]) -> None:
        _settle(order)
        wire.send(connection, Hello(isolation=("process", *layers)))
        request: Request
        request, _ = wire.receive(connection, Request)
        wire.send(connection, _triton_ahead.compile_request(request, Path(order.scratch)))

    spawn = Spawn(role="compiler", scratch=order.scratch, memory_bytes=0, threads=1, confine=True)
    run_reaper(spawn, descriptors, layers, work)


def _settle(order: Order) -> None:
    """The scratch folder for everything that is written, and limits that cannot be raised again."""
    os.chdir(order.scratch)
    os.environ.update(dict.fromkeys(("HOME", "TMPDIR"), order.scratch))
    # Whoever asked for it in the parent has had the parent's remembered.
    tempfile.tempdir = order.scratch
    with contextlib.suppress(OSError):
        os.nice(order.niceness)
    for kind, value in (
        (resource.RLIMIT_AS, order.memory_bytes),
        (resource.RLIMIT_CPU, order.seconds),
        (resource.RLIMIT_FSIZE, order.file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
