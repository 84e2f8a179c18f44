"""The reference once more, by other kernels of torch: how wrong a right answer may be shows in more than one of them.

Convolutions and recurrent layers on processors are oneDNN's. Its sums are short ones put together, whose error hardly
grows with their length. A plain sum of a thousand products is as right, and three times as far from float64.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...processes.messages import HOST
from ..calls.answering import Refused
from ..messages.commands import Open
from ..tensors.likeness import same
from ..tensors.tensor_placement import current_device
from .effects import called
from .problem import ReferenceProblem

_without: "weakref.WeakKeyDictionary[ReferenceProblem, bool]" = weakref.WeakKeyDictionary()
"""Whether a reference's first answer was another one without oneDNN; only then is it asked for again."""


def by_other_kernels(
    reference: ReferenceProblem,
    problem: Open,
    inputs: list[Any],
    earlier: Sequence[list[Any]],
    usual: Sequence[Any],
) -> list[Any]:
    """Outputs and state without oneDNN, in their own precision; empty where that changes nothing of ``usual``."""
    single = any(isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32 for leaf in usual)
    if current_device().device.type != HOST or not single or not _without.get(reference, True):
        return []
    try:
        with _onednn_off():
            answer = called(reference, problem, inputs, earlier).answer
    except Refused:
        return []
    differs = len(answer) == len(usual) and not all(map(same, answer, usual))
    _without.setdefault(reference, differs)
    return answer if differs else []


@contextmanager
def _onednn_off() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
