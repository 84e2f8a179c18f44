"""The contract suite's process: runs a finished file with the isolation of a candidate."""

import contextlib
import os
import socket
import tarfile
import warnings
from pathlib import Path

import torch

from ...dropin.contract import check
from ...languages._triton_runtime import unpack, use
from ...languages.program_runs import played_back
from ...processes.messages import Spawn
from ..calls.answering import attempt, serve_commands
from ..calls.sleeping_threads import sleep_while_waiting
from ..messages.contract import CheckContract, ContractChecked
from ..reference.other_kernels import ConvolutionsInTF32
from ..tensors import tensor_placement

FILE = "best"
"""Module name that the finished file gets."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(request.threads)
    sleep_while_waiting(request.threads)
    tensor_placement.set_device(request.device)
    serve_commands(channel, {CheckContract: _check})


def _check(command: CheckContract, descriptors: list[int]) -> ContractChecked:
    os.environ["KERNELSWARM_ARTIFACTS"] = command.artifacts
    # Triton compiles in this process what is not there yet; it cannot write where its parent keeps what it compiled.
    kernels = Path.cwd() / "triton"
    use(kernels)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, tarfile.TarError):
        for name in command.ahead:
            unpack(Path(command.artifacts) / name, kernels)
    os.environ |= {"HOME": str(Path.cwd()), "TMPDIR": str(Path.cwd())}
    path = Path.cwd() / f"{FILE}.py"
    path.write_text(command.source, encoding="utf-8")
    with played_back(Path.cwd(), [Path(command.artifacts) / name for name in command.built]):
        return ContractChecked(properties=attempt(lambda: check(path, ConvolutionsInTF32)))
