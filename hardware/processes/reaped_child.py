"""Forks a child with a reaper beside it, from a process that has imported what all such children need."""

import contextlib
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from . import linux, reaper, sandbox
from .messages import Spawn
from .written import MOST_FILES, TooMany, written_bytes

Work = Callable[[socket.socket, tuple[str, ...]], None]
"""What the child does, given its channel and the layers of isolation that it has got so far."""


def run_reaper(request: Spawn, descriptors: list[int], layers: tuple[str, ...], work: Work) -> NoReturn:
    """Be the reaper of a child that does ``work``: fork it, then watch it and the parent-death socket.

    Args:
        request: What files it may see and write.
        descriptors: Its channel, the parent-death socket, and where its output goes.
        layers: Of isolation, in force so far.
        work: Once its output goes there.
    """
    linux.die_with_parent()
    channel, parent_death, output = descriptors
    # A group of its own: it has to outlive the signals that it sends.
    os.setsid()
    layers += sandbox.separate_files(request)
    watch = reaper.Reaper(parent_death)
    pid = os.fork()
    if pid == 0:
        watch.leave()
        _be_child(request, channel, output, layers, work)
    os.close(channel)
    if not request.confine:
        os.close(output)
        watch.until_the_end(pid)
    # Without a view of processes of its own, ids are those of another one's.
    seen = pid if "procfs" in layers or "pidns" not in layers else 0
    watch.until_the_end(pid, lambda: _excess(request, seen, output))


def _excess(request: Spawn, pid: int, output: int) -> str:
    """Why it has written too much; printed for it, too."""
    most = request.memory_bytes + sandbox.SCRATCH_BYTES
    try:
        is_too_much = written_bytes(request.scratch, pid) > most
    except TooMany:
        is_too_much = True
    if not is_too_much:
        return ""
    why = f"out of memory: its files take more than {most} bytes, or are more than {MOST_FILES}"
    with contextlib.suppress(OSError):
        os.write(output, f"\n{why}\n".encode())
    return why


def _be_child(request: Spawn, channel: int, output: int, layers: tuple[str, ...], work: Work) -> NoReturn:
    status = 1
    try:
        linux.die_with_parent()
        os.setsid()
        _redirect(output)
        # Here and not before the fork: a process behind walls may write to what /proc shows of itself alone.
        layers += sandbox.wall_in(request)
        work(socket.socket(fileno=channel), layers)
        status = 0
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # The supervisor has let go: nobody is left to answer to.
        status = 0
    except BaseException:
        # Printed where the supervisor reads it; and nothing of the parent's goes on in here, whatever it was.
        traceback.print_exc()
        raise
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _redirect(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
