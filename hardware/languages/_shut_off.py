"""Shuts a process off before it compiles what nobody vouches for: no network, files read-only but one folder."""

import contextlib
from pathlib import Path

from ..processes import sandbox
from ..processes.messages import Spawn
from ..processes.namespaces import leave_network


def shut_off(scratch: Path) -> tuple[str, ...]:
    """Cut this process off; ``scratch`` must exist and is empty afterwards, and all that can be written.

    Files that are open for writing stay so. Limits on time and memory are set by who started the process. Returns the
    layers in force: where the kernel refuses one, the rest still holds.
    """
    layers: tuple[str, ...] = ()
    # A process with threads, as CUDA starts some, may leave the network only with a right of its own.
    with contextlib.suppress(OSError):
        layers = leave_network()
    confined = Spawn(role="compiler", scratch=str(scratch), memory_bytes=0, threads=1, confine=True)
    return ("process", *layers, *sandbox.separate_files(confined), *sandbox.wall_in(confined))
