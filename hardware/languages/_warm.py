"""The warm parent of Triton's compilers, as its supervisor holds it: one in a process, started when first needed.

It is bound to no event loop: whoever compiles asks it, from any thread, and has a child of its own from then on. A
parent that died is replaced; it ends with this process, however this process ends.
"""

import asyncio
import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ...schemas import PoolError
from ..processes import wire
from ..processes.limited_command import Finished, Limits, clean_environment
from ..processes.messages import Done
from ..processes.scratch import Scratch
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from ._triton_source import Order, Request, Result

START_SECONDS = 120.0
"""How long importing Triton may take on a busy machine."""
ORDER_SECONDS = 30.0
"""How long forking may: the parent does nothing else."""
TRIES = 3
_PARENT = f"{__package__}._triton_parent"


async def compile_in_child(
    request: Request, scratch: Path, limits: Limits, environment: Mapping[str, str]
) -> tuple[Result | None, Finished]:
    """Have ``request`` compiled in a child of its own whose folder is ``scratch``, made here and removed in the end.

    Returns:
        What came of it, None if the child was late or did not live to say; and how it ended.

    Raises:
        PoolError: Triton cannot be imported here.
    """
    with _counted() as under_way:
        request = replace(request, parallel=max(1, _cores() // under_way))
        for _ in range(TRIES):
            worker, parent = await _child(request.target, scratch, limits, environment)
            result, finished = await _asked(worker, request, limits.seconds)
            if result is not None or finished.timed_out or parent.alive:
                break  # else it is the parent's end that ended it, and not the candidate's fault
    return result, finished


async def _asked(worker: Worker, request: Request, limit: float) -> tuple[Result | None, Finished]:
    began, result, late, status = time.monotonic(), None, False, 0
    try:
        answer, received = await worker.ask(request, Result, seconds=limit)
        wire.close_all(received)
        result = answer if isinstance(answer, Result) else None
    except TimeoutError:
        late = True
    except WorkerDied as died:
        status = -died.ended.signal if died.ended.signal else died.ended.exit_code
    except WorkerConfused:
        status = 1
    finally:
        await asyncio.shield(worker.kill())
    return result, Finished(status, worker.output, late, time.monotonic() - began, worker.isolation)


async def _child(
    target: str, scratch: Path, limits: Limits, environment: Mapping[str, str]
) -> "tuple[Worker, _Parent]":
    reason = ""
    for _ in range(TRIES):
        order = _order(scratch, limits)
        pairs = [socket.socketpair() for _ in range(3)]
        peers = [theirs for _, theirs in pairs]
        try:
            parent = await asyncio.to_thread(_forked, target, environment, order, peers)
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            for theirs in peers:
                theirs.close()
        worker = Worker(*(ours for ours, _ in pairs), scratch=scratch, label="compiler", answers=Result)
        try:
            await worker.greet(ORDER_SECONDS)
            return worker, parent
        except asyncio.CancelledError:
            worker.abandon()
            raise
        except (EOFError, TimeoutError, OSError, ValueError) as error:
            reason = f"{type(error).__name__} {error} {worker.output}".strip()
            await worker.kill()
    raise PoolError(f"no child that compiles Triton comes up: {reason}")


def _order(scratch: Path, limits: Limits) -> Order:
    scratch.mkdir()
    return Order(
        scratch=str(scratch),
        # Slack: the wall clock decides.
        seconds=2 * int(limits.seconds) + 2,
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.file_bytes,
        niceness=limits.niceness,
    )


_guard = threading.Lock()
_parents: list["_Parent"] = []
"""The one there is, or none."""
_under_way: set[object] = set()


@contextlib.contextmanager
def _counted() -> Iterator[int]:
    """How many compile in this process, this one included."""
    compilation = object()
    _under_way.add(compilation)
    try:
        yield len(_under_way)
    finally:
        _under_way.discard(compilation)


def _forked(target: str, environment: Mapping[str, str], order: Order, ends: Sequence[socket.socket]) -> "_Parent":
    """Have a child forked, by a new parent if there is none or it has died. Blocks, mostly for no time at all."""
    with _guard:
        configuration = (os.getpid(), target, tuple(sorted(clean_environment(environment).items())))
        for _ in range(2):
            parent = _living(configuration)
            try:
                parent.order(order, [end.fileno() for end in ends])
                return parent
            except OSError:
                _end_parents()
    raise PoolError("the process that compiles Triton's kernels keeps dying; run `kernelswarm doctor`")


_LibraryKey = tuple[int, str, tuple[tuple[str, str], ...]]
"""Process that it belongs to, what it compiles for, what it sees of the environment."""


def _living(configuration: _LibraryKey) -> "_Parent":
    if not (_parents and _parents[0].made_for == configuration and _parents[0].alive):
        _end_parents()
        _parents.append(_Parent(configuration))
    return _parents[0]


def _end_parents() -> None:
    while _parents:
        _parents.pop().close()


class _Parent:
    """The process."""

    def __init__(self, configuration: _LibraryKey) -> None:
        """Starts it and waits until it can fork.

        Raises:
            PoolError: it does not come up.
        """
        self.made_for = configuration
        _, target, environment = configuration
        self._scratch = Scratch()
        folder = self._scratch.path
        log = folder / "parent.log"
        self._control, theirs = socket.socketpair()
        with theirs, log.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _PARENT, str(theirs.fileno()), target],
                cwd=folder,
                # numpy's own pool would be a thread in the process that forks.
                env={**dict(environment), "HOME": str(folder), "TMPDIR": str(folder), "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control.settimeout(START_SECONDS)
        try:
            wire.receive(self._control, Done)
        except (EOFError, OSError) as error:
            lines = log.read_text(errors="replace").strip().splitlines() or [type(error).__name__]
            self.close()
            raise PoolError(f"Triton cannot be used with {sys.executable}: {lines[-1]}") from error
        self._control.settimeout(ORDER_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether it has not ended so far."""
        return self._process.poll() is None

    def order(self, order: Order, descriptors: Sequence[int]) -> None:
        """Have a child forked.

        Raises:
            OSError: it is gone.
        """
        wire.send(self._control, order, descriptors)

    def close(self) -> None:
        """End it, and with it its children. In a process that was forked from its supervisor: only let go of it."""
        self._control.close()
        if self.made_for[0] == os.getpid():
            self._process.kill()
            self._process.wait()
            self._scratch.close()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@atexit.register
def _end() -> None:
    with _guard:
        _end_parents()
