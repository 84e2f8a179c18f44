"""The contract suite for finished files, behind the walls that hold for candidates: nobody has judged their code."""

import os
import socket
import warnings
from pathlib import Path

import torch

from ...schemas import ContractProperty
from ..dropin.contract import check
from ..dropin.properties import ESSENTIAL, PROPERTIES
from . import place
from .answering import attempt, describe, serve_commands
from .launcher import Launcher
from .messages import CheckContract, ContractChecked, Failure, Spawn
from .worker import WorkerConfused, WorkerDied

FILE = "best"
"""Module name that the finished file gets."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(request.threads)
    place.settle(request.device)
    serve_commands(channel, {CheckContract: _check})


def _check(command: CheckContract, descriptors: list[int]) -> ContractChecked:
    os.environ["KERNELSWARM_ARTIFACTS"] = command.artifacts
    path = Path.cwd() / f"{FILE}.py"
    path.write_text(command.source, encoding="utf-8")
    return ContractChecked(properties=attempt(lambda: check(path)))


async def contract_of(launcher: Launcher, source: str, *, seconds: float) -> tuple[ContractProperty, ...]:
    """Hold the finished file ``source`` against the contract, in a process of its own.

    A file that breaks the process, or takes longer than ``seconds``, has none of the properties that a win needs.

    Raises:
        HarnessError: no process can be started.
    """
    worker = await launcher.spawn("contract", programs="triton" in source)
    command = CheckContract(source=source, artifacts=str(launcher.artifacts))
    try:
        answer, _ = await worker.ask(command, ContractChecked, seconds=seconds)
    except TimeoutError:
        return _broken(f"it did not end within {seconds:g} s")
    except (WorkerDied, WorkerConfused) as error:
        return _broken(f"its process ended: {describe(error)}")
    finally:
        await worker.kill()
    return _broken(answer.message) if isinstance(answer, Failure) else answer.properties


def _broken(detail: str) -> tuple[ContractProperty, ...]:
    return tuple(ContractProperty(name=name, ok=name not in ESSENTIAL, detail=detail) for name in PROPERTIES)
