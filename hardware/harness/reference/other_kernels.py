"""Runs the reference a second time with other kernels of torch: the larger of the two errors sets the bound.

Convolutions and recurrent layers on processors are oneDNN's. Its sums are short ones put together, whose error hardly
grows with their length. A plain sum of a thousand products is as right, and three times as far from float64.

Of convolutions on a GPU torch's switches permit TF32 unless somebody forbids it, and cuDNN takes it or leaves it by
sizes and order of memory: the same network is a thousand times as exact in one order as in the other.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...processes.messages import HOST
from ..calls.answering import Refused
from ..messages.commands import Open
from ..tensors import values
from ..tensors.likeness import same
from ..tensors.roundings import to_tf32
from ..tensors.tensor_placement import current_device
from .effects import called
from .problem import ReferenceProblem

_without: "weakref.WeakKeyDictionary[ReferenceProblem, bool]" = weakref.WeakKeyDictionary()
"""Whether a reference's first answer was another one without oneDNN; only then is it asked for again."""
_convolves: "weakref.WeakKeyDictionary[ReferenceProblem, dict[_Form, bool]]" = weakref.WeakKeyDictionary()
"""Whether a reference's first answer to inputs of such sizes and numbers, after so many calls, took convolutions in
fp32."""
_Form = tuple[int, tuple[str, ...]]


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
    """Outputs and state with convolutions in TF32 throughout, where torch's switches permit that; empty elsewhere.

    Raises:
        Refused: there is not enough memory: the bound would be another one than with more of it.
    """
    device = current_device()
    met = _convolves.setdefault(reference, {})
    form = len(earlier), tuple(str(getattr(leaf, "shape", leaf)) for leaf in values.leaves(inputs))
    if device.device.type == HOST or not any(map(_is_single, usual)) or not met.get(form, True):
        return []
    shortages = device.shortages
    try:
        answer = run_in_tf32(lambda: called(reference, problem, inputs, earlier).answer)
    except Refused:
        if device.shortages > shortages:
            raise
        return []
    met.setdefault(form, bool(answer))
    return answer if len(answer) == len(usual) else []


def run_in_tf32(call: Callable[[], list[Any]]) -> list[Any]:
    """What ``call`` gives where torch's switches permit TF32 and it meets convolutions; empty elsewhere."""
    if current_device().device.type == HOST:
        return []
    with ConvolutionsInTF32() as rounding:
        answer = call()
    return answer if rounding.met else []


def _is_single(leaf: Any) -> bool:
    return isinstance(leaf, float) or (
        isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float32, torch.complex64)
    )


class ConvolutionsInTF32(TorchDispatchMode):  # type: ignore[misc]
    """While it is entered, what convolutions of fp32 tensors multiply is rounded to TF32.

    Where torch's switches permit that at the moment: a file may set them for one of its convolutions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.met = False
        """Whether there was one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _OPERANDS and args[0].dtype is torch.float32 and _permits(func, args):
            self.met = True
            count = _OPERANDS[func]
            args = (*map(to_tf32, args[:count]), *args[count:])
        return func(*args, **(kwargs or {}))


_EXPLICIT = torch.ops.aten._convolution.default
"""What tracing makes of a convolution: its last arguments are the switches."""
_OPERANDS = {torch.ops.aten.convolution.default: 2, torch.ops.aten.convolution_backward.default: 3, _EXPLICIT: 2}
"""How many of the first arguments are multiplied."""


def _permits(func: Any, args: Any) -> bool:
    if func is _EXPLICIT:
        *_, is_cudnn_enabled, is_permitted = args
        return bool(is_cudnn_enabled and is_permitted)
    # Not `allow_tf32`: it raises where convolutions and recurrent layers have switches of their own.
    return bool(torch.backends.cudnn.enabled and torch.backends.cudnn.conv.fp32_precision == "tf32")
