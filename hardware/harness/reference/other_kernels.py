"""The reference once more, by other kernels of torch: how wrong a right answer may be shows in more than one of them.

Convolutions and recurrent layers on processors are oneDNN's. Its sums are short ones put together, whose error hardly
grows with their length. A plain sum of a thousand products is as right, and three times as far from float64.

Of convolutions on a GPU torch's switches permit TF32 unless somebody forbids it, and cuDNN takes it or leaves it by
sizes and order of memory: the same network is a thousand times as exact in one order as in the other.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...processes.messages import HOST
from ..calls.answering import Refused
from ..messages.commands import Open
from ..tensors.likeness import same
from ..tensors.roundings import to_tf32
from ..tensors.tensor_placement import current_device
from .effects import called
from .problem import ReferenceProblem

_without: "weakref.WeakKeyDictionary[ReferenceProblem, bool]" = weakref.WeakKeyDictionary()
"""Whether a reference's first answer was another one without oneDNN; only then is it asked for again."""
_convolves: "weakref.WeakKeyDictionary[ReferenceProblem, bool]" = weakref.WeakKeyDictionary()
"""Whether a reference's first answer took convolutions in fp32."""


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


def in_tf32(
    reference: ReferenceProblem,
    problem: Open,
    inputs: list[Any],
    earlier: Sequence[list[Any]],
    usual: Sequence[Any],
) -> list[Any]:
    """Outputs and state with convolutions in TF32 throughout, where torch's switches permit that; empty elsewhere."""
    single = any(isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32 for leaf in usual)
    is_permitted = current_device().device.type != HOST and torch.backends.cudnn.allow_tf32
    if not is_permitted or not single or not _convolves.get(reference, True):
        return []
    try:
        with ConvolutionsInTF32() as rounding:
            answer = called(reference, problem, inputs, earlier).answer
    except Refused:
        return []
    _convolves.setdefault(reference, rounding.met)
    return answer if rounding.met and len(answer) == len(usual) else []


def is_run_in_tf32(reference: ReferenceProblem) -> bool:
    """Whether :func:`in_tf32` was asked for ``reference`` and met convolutions."""
    return _convolves.get(reference, False)


class ConvolutionsInTF32(TorchDispatchMode):  # type: ignore[misc]
    """While it is entered, what convolutions of fp32 tensors multiply is rounded to TF32."""

    def __init__(self) -> None:
        super().__init__()
        self.met = False
        """Whether there was one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _OPERANDS and args[0].dtype is torch.float32:
            self.met = True
            count = _OPERANDS[func]
            args = (*map(to_tf32, args[:count]), *args[count:])
        return func(*args, **(kwargs or {}))


_OPERANDS = {torch.ops.aten.convolution.default: 2, torch.ops.aten.convolution_backward.default: 3}
"""How many of the first arguments are multiplied."""
