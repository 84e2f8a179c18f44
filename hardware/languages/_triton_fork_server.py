"""Keeps Triton imported and forks a child for each candidate: none pays for the import, and none meets another.

The server runs nothing of a candidate and never sees its text: that goes to the child over a channel of its own. Each
child has a reaper (:mod:`..processes.reaper`), no network, a PID namespace and files that it can only read outside its
scratch folder, as far as the kernel permits; the layers in force are in its first message.

Usage: ``python -m kernelswarm.hardware.languages._triton_fork_server DESCRIPTOR TARGET``.
"""

import contextlib
import os
import resource
import socket
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from ..processes import fork_server, wire
from ..processes.messages import Hello, Spawn
from ..processes.reaped_child import run_reaper
from . import _triton_ahead
from ._triton_source import Order, Request


def main(descriptor: int, target: str) -> None:
    """Serve orders."""

    def load() -> fork_server.Child:
        _triton_ahead.load(target)
        return _keep

    fork_server.serve(descriptor, Order, load)


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
    # Whoever asked for it in the server has had the server's remembered.
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
