"""Children that compile Triton's kernels, one for each candidate, forked by a server that has imported Triton.

The server starts when it is first needed and ends with this process, however this process ends.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ...schemas import PoolError
from ..machine.cpu_facts import usable_cores
from ..processes import wire
from ..processes.fork_server import ORDER_SECONDS, ForkServer, ForkServerError, Program
from ..processes.forked_worker import forked_worker
from ..processes.limited_command import Finished, Limits, clean_environment
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from ._triton_source import Order, Request, Result

TRIES = 3
_ENVIRONMENT = ("PYTHONPATH", "CUDA_HOME", "TRITON_LIBCUDA_PATH")


async def compile_in_child(request: Request, scratch: Path, limits: Limits) -> tuple[Result | None, Finished]:
    """Have ``request`` compiled in a child of its own whose folder is ``scratch``, made here and removed in the end.

    Returns:
        What came of it, None if the child was late or did not live to say; and how it ended.

    Raises:
        PoolError: Triton cannot be imported here.
    """
    with _counted() as under_way:
        request = replace(request, parallel=max(1, usable_cores() // under_way))
        for _ in range(TRIES):
            worker, server = await _child(request.target, scratch, limits)
            result, finished = await _asked(worker, request, limits.seconds)
            if result is not None or finished.timed_out or server.alive:
                break  # else it is the server's end that ended it, and not the candidate's fault
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


def fork_server_program(target: str) -> Program:
    """What the server runs that forks the compilers for ``target``, in the environment of this process."""
    seen = clean_environment({name: os.environ[name] for name in _ENVIRONMENT if name in os.environ})
    return Program(f"{__package__}._triton_fork_server", (target,), seen, tuple(sorted(seen.items())))


async def _child(target: str, scratch: Path, limits: Limits) -> tuple[Worker, ForkServer]:
    try:
        return await forked_worker(
            fork_server_program(target),
            lambda: (_order(scratch, limits), scratch),
            label="compiler",
            answers=Result,
            seconds=ORDER_SECONDS,
        )
    except ForkServerError as error:
        raise PoolError(f"Triton cannot be used {error}; run `kernelswarm doctor`") from error


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
