"""Runs a toolchain over text that nobody vouches for: time, memory and file size limited, killed as a group."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import subprocesses
from .written import MOST_FILES, TooMany, written_bytes

KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "SDKROOT", "CONDA_PREFIX")
"""All a compiler gets to see of our environment: an ``#include "/proc/self/environ"`` finds no key in it."""

JAIL = Path(__file__).with_name("jail.py")

KEPT_OUTPUT = 1 << 20
"""Bytes of output that are kept; the rest is read and dropped."""

MOST_LARGEST_FILES = 4
"""All that a command writes takes no more than so many files of the largest size."""
_POLL = 0.005
_LOOK = 0.5
"""Seconds after which it is looked how much there is."""
_LEFT_BEHIND = 0.5
"""Seconds in which the output of a command that has ended is read to its end."""

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

    niceness: int = 0
    """How much less urgent it is than others, as ``nice`` counts."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    returncode: int
    output: str
    """stdout and stderr together, the first megabyte."""
    timed_out: bool
    seconds: float
    isolation: str = ""
    """Layers in force, as ``process+netns+toolroot``; empty if none was asked for or is to be had."""

    @property
    def last_line(self) -> str:
        """The last line that it printed, which mostly says why it failed."""
        lines = (line.strip() for line in reversed(self.output.splitlines()))
        return next(filter(None, lines), "it printed nothing")


async def run_limited(
    argv: Sequence[str],
    *,
    cwd: Path,
    limits: Limits,
    environment: Mapping[str, str] | None = None,
    readable: Sequence[str] = (),
    filtered: bool = False,
) -> Finished:
    """Run ``argv`` in ``cwd`` under ``limits``; when cancelled or late, every process it started is killed.

    Args:
        argv: The command.
        cwd: Its working folder.
        limits: What it may use.
        environment: Added to what it gets to see of ours.
        readable: If given, the command is shut off where the kernel permits that: no network, and of all files it can
            read these, folders whole, and write those in ``cwd``.
        filtered: The command runs a candidate's own code: it gets a candidate's system call filter as well.

    Raises:
        OSError: the command cannot be started.
    """
    started = time.monotonic()
    command, report = _limited(argv, limits), _LayersPipe()
    with report:
        process = await subprocesses.start(
            *(_shut_off(command, cwd, readable, report, filtered) if readable and sys.platform == "linux" else command),
            cwd=cwd,
            env={**clean_environment(), "TMPDIR": str(cwd), "HOME": str(cwd), **(environment or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=(report.into,),
        )
        if limits.niceness:
            with contextlib.suppress(OSError):  # it has ended already
                os.setpriority(os.PRIO_PGRP, process.pid, limits.niceness)
        return await _finished(process, cwd, limits, started, report)


class _LayersPipe:
    """A pipe on which the layers in force are told before the command starts."""

    def __enter__(self) -> "_LayersPipe":
        self._out, self.into = os.pipe()
        os.set_blocking(self._out, False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self.into)

    def layers(self) -> str:
        """What was told so far."""
        try:
            return os.read(self._out, 4096).decode("ascii", errors="replace")
        except BlockingIOError:
            return ""


def _shut_off(command: list[str], cwd: Path, readable: Sequence[str], report: _LayersPipe, filtered: bool) -> list[str]:
    interpreter = [sys.executable, "-I", "-S", str(JAIL), str(report.into)]
    return [*interpreter, str(cwd.resolve()), os.pathsep.join(readable), *(["filtered"] * filtered), "--", *command]


async def _finished(
    process: asyncio.subprocess.Process, cwd: Path, limits: Limits, started: float, report: _LayersPipe
) -> Finished:
    assert process.stdin is not None and process.stdout is not None
    output, timed_out = bytearray(), False
    try:
        async with asyncio.timeout(limits.seconds):
            await _ended(process, process.stdout, output, lambda: _excess(cwd, limits))
    except TimeoutError:
        timed_out = True
    finally:
        # The group outlives its leader if a child of the compiler stayed behind, so it is killed in any case.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
        await subprocesses.reaped(process)
    text = output.decode("utf-8", errors="replace")
    return Finished(process.returncode or 0, text, timed_out, time.monotonic() - started, report.layers())


def _limited(argv: Sequence[str], limits: Limits) -> list[str]:
    # POSIX counts -v in KiB and -f in blocks of 512 bytes. CPU time gets slack: the wall clock decides.
    numbers = (limits.memory_bytes // 1024, 2 * int(limits.seconds) + 2, limits.file_bytes // 512)
    return ["/bin/sh", "-c", _LIMITS, "limited", *map(str, numbers), *argv]


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a compiler gets to see of our environment, and ``more``."""
    inherited = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return {**inherited, "LC_ALL": "C", **(more or {})}


def _excess(cwd: Path, limits: Limits) -> str:
    """Why the command has to be killed: many files are too much, too; empty if it has not."""
    most = MOST_LARGEST_FILES * limits.file_bytes
    try:
        return f"its files take more than {most} bytes" if written_bytes(str(cwd), 0) > most else ""
    except TooMany:
        return f"it wrote more than {MOST_FILES} files"


async def _ended(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader, output: bytearray, excess: Callable[[], str]
) -> None:
    """Wait for the end of the command and of its output; not for what it left behind in another process group.

    Such a child holds the pipe for as long as it likes.
    """
    drain = asyncio.ensure_future(_drain(stream, output))
    try:
        look = time.monotonic() + _LOOK
        while process.returncode is None:  # process.wait() waits for the pipe
            await asyncio.sleep(_POLL)
            if time.monotonic() > look:
                if why := await asyncio.to_thread(excess):
                    output += f"\n{why}\n".encode()
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                look = time.monotonic() + _LOOK
        await asyncio.wait([drain], timeout=_LEFT_BEHIND)
    finally:
        drain.cancel()


async def _drain(stream: asyncio.StreamReader, into: bytearray) -> None:
    while chunk := await stream.read(1 << 16):
        into += chunk[: KEPT_OUTPUT - len(into)]
