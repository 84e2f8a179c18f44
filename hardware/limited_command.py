"""Runs a toolchain over text that nobody vouches for: time, memory and file size limited, killed as a group."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "SDKROOT", "CONDA_PREFIX")
"""All a compiler gets to see of our environment: an ``#include "/proc/self/environ"`` finds no key in it."""

KEPT_OUTPUT = 1 << 20
"""Bytes of output that are kept; the rest is read and dropped."""

# The shell sets the limits and execs, so there is no process between us and the command. Beside it a watcher reads from
# a pipe whose other end is ours: when this process dies, however it does, the read ends and the group is killed.
_LIMITS = """
exec 3<&0 </dev/null
( read -r _ <&3; kill -9 0 ) >/dev/null 2>&1 &
exec 3<&-
ulimit -v "$1" 2>/dev/null; ulimit -t "$2" 2>/dev/null; ulimit -f "$3" 2>/dev/null; ulimit -c 0 2>/dev/null
shift 3
exec "$@"
"""


@dataclass(frozen=True)
class Limits:
    """What a command may use."""

    seconds: float
    """Wall-clock time."""

    memory_bytes: int
    """Address space of each of its processes."""

    file_bytes: int
    """Size of each file it writes."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    returncode: int
    output: str
    """stdout and stderr together, the first megabyte."""
    timed_out: bool
    seconds: float


async def run_limited(
    argv: Sequence[str], *, cwd: Path, limits: Limits, environment: Mapping[str, str] | None = None
) -> Finished:
    """Run ``argv`` in ``cwd`` under ``limits``; when cancelled or late, every process it started is killed.

    ``environment`` is added to what it gets to see of ours.

    Raises:
        OSError: the command cannot be started.
    """
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *_limited(argv, limits),
        cwd=cwd,
        env={**_environment(cwd), **(environment or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    output, timed_out = bytearray(), False
    try:
        async with asyncio.timeout(limits.seconds):
            await _drain(process.stdout, output)
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        # The group outlives its leader if a child of the compiler stayed behind, so it is killed in any case.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
        await _reaped(process)
    text = output.decode("utf-8", errors="replace")
    return Finished(process.returncode or 0, text, timed_out, time.monotonic() - started)


def _limited(argv: Sequence[str], limits: Limits) -> list[str]:
    # POSIX counts -v in KiB and -f in blocks of 512 bytes. CPU time gets slack: the wall clock decides.
    numbers = (limits.memory_bytes // 1024, 2 * int(limits.seconds) + 2, limits.file_bytes // 512)
    return ["/bin/sh", "-c", _LIMITS, "limited", *map(str, numbers), *argv]


def _environment(cwd: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(cwd), "HOME": str(cwd)}


async def _drain(stream: asyncio.StreamReader, into: bytearray) -> None:
    while chunk := await stream.read(1 << 16):
        into += chunk[: KEPT_OUTPUT - len(into)]


async def _reaped(process: asyncio.subprocess.Process) -> None:
    # A second cancellation must not leave a zombie: the kill is sent, so this wait is short.
    waiting = asyncio.ensure_future(process.wait())
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not waiting.done():
                await asyncio.wait([waiting])
            raise
