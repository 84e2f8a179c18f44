"""A worker that a fork server has forked, in as many tries as it takes one to come up."""

import asyncio
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fork_server import FORK_SERVERS, ForkServer, ForkServerError, Program
from .machine_load import load_text, slowdown
from .worker import Worker

TRIES = 3


async def forked_worker(
    program: Program, order: Callable[[], tuple[Any, Path]], *, label: str, answers: Any, seconds: float
) -> tuple[Worker, ForkServer]:
    """Have a server fork a child that comes up within ``seconds``, or on a busy machine :func:`.slowdown` times that.

    Args:
        program: What the server runs.
        order: Makes the order for a try, and the scratch folder that goes with the child.
        label: What the worker is called.
        answers: Type of what it may answer.
        seconds: Until it says hello.

    Raises:
        ForkServerError: no server or no child comes up.
    """
    reason = ""
    for _ in range(TRIES):
        request, scratch = order()
        pairs = [socket.socketpair() for _ in range(3)]
        peers = [theirs for _, theirs in pairs]
        worker = Worker(*(ours for ours, _ in pairs), scratch=scratch, label=label, answers=answers)
        try:
            server = await asyncio.to_thread(FORK_SERVERS.fork, program, request, peers)
            await worker.greet(seconds * slowdown())
            return worker, server
        except asyncio.CancelledError:
            worker.abandon()
            raise
        except (EOFError, TimeoutError, OSError, ValueError) as error:
            reason = f"{type(error).__name__} {error} {worker.output}".strip()
            await worker.kill()
        except BaseException:
            await worker.kill()
            raise
    raise ForkServerError(f"with {sys.executable}: no {label} process comes up{load_text()}: {reason}")
