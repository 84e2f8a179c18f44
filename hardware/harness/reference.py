"""The reference's process: draws inputs, knows what is right, compares. It sees outputs, never the candidate's code."""

import os
import socket
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import values
from .answering import Handlers, Refused, attempt, serve_commands
from .bounds import read_tolerance
from .compare import Target
from .linux import LESS_URGENT
from .messages import (
    CaseMade,
    Compare,
    Compared,
    MakeCase,
    Open,
    Opened,
    Spawn,
)
from .place import Place, brought, settle
from .subject import Subject, explained, open_subject


def prepare_process(request: Spawn) -> Place:
    """What every child that runs a problem file sets first; returns where its tensors live."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(request.threads)
    torch.set_grad_enabled(False)
    return settle(request.device)


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    prepare_process(request)
    # Nothing is timed in here. Drafts are compared while the baselines compile, and everybody waits for the latter.
    os.nice(LESS_URGENT)
    reference = _Reference()
    handlers: Handlers = {Open: reference.open, MakeCase: reference.make_case, Compare: reference.compare}
    serve_commands(channel, handlers)


class _Reference:
    def __init__(self) -> None:
        self._subject: Subject | None = None
        self._problem: Open | None = None
        self._cases: dict[int, list[Target]] = {}

    def open(self, command: Open, descriptors: list[int]) -> Opened | tuple[Opened, Sequence[int]]:
        self._problem, self._subject = command, open_subject(command)
        self._subject.bring()
        setup = self._subject.setup()
        if setup is None:
            return Opened(shapes=self._subject.shapes)
        packed, file = values.pack(setup)
        return Opened(shapes=self._subject.shapes, setup=packed), (file,)

    def make_case(self, command: MakeCase, descriptors: list[int]) -> tuple[CaseMade, Sequence[int]]:
        assert self._subject is not None and self._problem is not None
        inputs = self._subject.draw(command.shape, command.seed)
        packed, file = values.pack(inputs)
        try:
            targets = targets_of(self._subject, self._problem, brought(inputs))
        except BaseException:
            os.close(file)
            raise
        self._cases[command.case] = targets
        made = CaseMade(
            inputs=packed,
            outputs=tuple(target.expected() for target in targets),
            float64=all(target.float64 for target in targets),
        )
        return made, (file,)

    def compare(self, command: Compare, descriptors: list[int]) -> Compared:
        """The worst output; the first that is wrong, if one is."""
        position, worst = 0, Compared(ok=True, error=0.0, reference_error=0.0, bound=0.0)
        for index, (target, output) in enumerate(zip(self._cases[command.case], command.outputs, strict=True)):
            result, position = target.compare(output, descriptors[0], position, index)
            if not result.ok:
                return result
            if index == 0 or _share(result) > _share(worst):
                worst = result
        return worst


def _share(result: Compared) -> float:
    return result.error / result.bound if result.bound else 0.0


def targets_of(subject: Subject, problem: Open, inputs: list[Any]) -> list[Target]:
    """Oracle and own error for every output of the reference on ``inputs``, which stay as they are.

    Raises:
        Refused: the reference fails on them, or returns nothing that can be compared.
    """
    native = reference_outputs(subject, problem, inputs)
    precise: list[Any] = [None] * len(native)
    try:
        found = values.leaves(attempt(lambda: subject.precise(_copies(inputs))))
        precise = found if len(found) == len(native) else precise
    except Refused:
        # It does not run in float64: it is its own oracle, in its own precision (see bounds.OWN_PRECISION).
        pass
    tolerance = read_tolerance(subject.tolerance)
    for leaf in native:
        if not isinstance(leaf, torch.Tensor | int | float | None):
            raise Refused(
                f"{problem.name}.py: the reference returns a {type(leaf).__name__}; return tensors or numbers"
            )
    return [Target(one, other, tolerance) for one, other in zip(native, precise, strict=True)]


def reference_outputs(subject: Subject, problem: Open, inputs: list[Any]) -> list[Any]:
    """The reference's outputs, flattened.

    Raises:
        Refused: it raised or returned nothing; the message is a sentence for the user.
    """
    call: Callable[..., Any] = subject.call
    try:
        native = values.leaves(attempt(lambda: call(*_copies(inputs))))
    except Refused as refused:
        name = "Model.forward" if isinstance(call, torch.nn.Module) else "reference"
        raise explained(refused, problem, f"{name}(...) fails on its own inputs") from None
    if not native or all(leaf is None for leaf in native):
        raise Refused(f"{problem.name}.py: the reference returns nothing; return a tensor or a tuple of tensors")
    return native


def _copies(inputs: list[Any]) -> list[Any]:
    return [
        value.clone(memory_format=torch.preserve_format)
        if isinstance(value, torch.Tensor)
        else (type(value)(_copies(list(value))) if isinstance(value, list | tuple) else value)
        for value in inputs
    ]
