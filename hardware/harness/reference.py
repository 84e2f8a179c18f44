"""The reference's process: draws inputs, knows what is right, compares. It sees outputs, never the candidate's code."""

import os
import socket
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from . import values
from .answering import Handlers, serve_commands
from .compare import Target
from .kinds import NORMAL
from .linux import LESS_URGENT
from .meaning import TOO_SLOW, Meaningless, drawn, is_slow
from .messages import (
    CaseMade,
    Compare,
    Compared,
    Explain,
    Explained,
    MakeCase,
    Open,
    Opened,
    Spawn,
    Values,
)
from .place import Place, brought, settle
from .precision import suspected
from .subject import Subject, open_subject


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
    handlers: Handlers = {
        Open: reference.open,
        MakeCase: reference.make_case,
        Compare: reference.compare,
        Explain: reference.explain,
    }
    serve_commands(channel, handlers)


@dataclass(frozen=True)
class _Held:
    made: MakeCase
    targets: list[Target]


class _Reference:
    def __init__(self) -> None:
        self._subject: Subject | None = None
        self._problem: Open | None = None
        self._cases: dict[int, _Held] = {}
        self._took: dict[str, float] = {}
        """How long the last case on the problem's own inputs took to make, by shape, seconds."""

    def open(self, command: Open, descriptors: list[int]) -> Opened | tuple[Opened, Sequence[int]]:
        self._problem, self._subject = command, open_subject(command)
        self._subject.bring()
        setup = self._subject.setup()
        if setup is None:
            return Opened(shapes=self._subject.shapes, backward=self._subject.backward)
        packed, file = values.pack(setup)
        return Opened(shapes=self._subject.shapes, setup=packed, backward=self._subject.backward), (file,)

    def make_case(self, command: MakeCase, descriptors: list[int]) -> tuple[CaseMade, Sequence[int]]:
        assert self._subject is not None and self._problem is not None
        began = time.monotonic()
        try:
            if command.kind != NORMAL and not command.again and is_slow(self._took.get(command.shape, 0.0)):
                raise Meaningless(TOO_SLOW)
            inputs, targets = drawn(self._subject, self._problem, command.shape, command.seed, command.kind)
        except Meaningless as why:
            return CaseMade(inputs=Values(items=(), size=0), outputs=(), float64=False, refused=str(why)), ()
        if command.kind == NORMAL:
            self._took[command.shape] = time.monotonic() - began
        packed, file = values.pack(inputs)
        self._cases[command.case] = _Held(command, targets)
        made = CaseMade(
            inputs=packed,
            outputs=tuple(target.expected() for target in targets),
            float64=all(target.float64 for target in targets),
        )
        return made, (file,)

    def compare(self, command: Compare, descriptors: list[int]) -> Compared:
        """The worst output; the first that is wrong, if one is."""
        position, worst = 0, Compared(ok=True, error=0.0, reference_error=0.0, bound=0.0)
        for index, (target, output) in enumerate(zip(self._cases[command.case].targets, command.outputs, strict=True)):
            result, position = target.compare(output, descriptors[0], position, index)
            if not result.ok:
                return result
            if index == 0 or _share(result) > _share(worst):
                worst = result
        return worst

    def explain(self, command: Explain, descriptors: list[int]) -> Explained:
        """Whether a wrong output is what the reference computes in a lower precision."""
        assert self._subject is not None and self._problem is not None
        held = self._cases[command.case]
        made = held.made
        # Drawn once more: a case's inputs are not kept here.
        inputs, _ = drawn(self._subject, self._problem, made.shape, made.seed, made.kind)
        got, oracle, dtype = _written(held.targets, command.output, descriptors[0])
        return Explained(precision=suspected(self._subject, brought(inputs), command.output, got, oracle, dtype))


def _written(targets: list[Target], index: int, file: int) -> tuple[torch.Tensor, torch.Tensor, str]:
    """What a candidate wrote as output ``index``, what is right, both flat in float64, and the output's dtype."""
    position = 0
    for target in targets[:index]:
        position = target.after(position)
    got, oracle = targets[index].written(file, position)
    return got, oracle, targets[index].dtype


def _share(result: Compared) -> float:
    return result.error / result.bound if result.bound else 0.0
