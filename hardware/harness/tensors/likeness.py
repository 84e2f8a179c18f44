"""Tests whether two values are the same: bit by bit, or except for the order of additions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...processes import objects
from ...processes.messages import HOST
from . import values
from .flat import rms_of_finite
from .tensor_placement import current_device

ORDER_SLACK = 256
"""Units in the last place that two runs of one reference may differ by."""


MOST_TOGETHER = 1 << 22
"""Elements of tensors that an accelerator compares while others are on their way: that takes memory."""


def same(first: Any, second: Any) -> bool:
    """Whether tensors, numbers, or lists of them are equal; a NaN is equal to a NaN."""
    return each_same([(first, second)])[0]


def each_same(pairs: Iterable[tuple[Any, Any]]) -> list[bool]:
    """:func:`same` of every pair. An accelerator is waited for once for many: a network has hundreds of buffers."""
    answers: list[bool] = []
    left: dict[Any, list[tuple[int, torch.Tensor, torch.Tensor]]] = defaultdict(list)
    sizes: dict[Any, int] = defaultdict(int)

    def decide(alike: list[tuple[int, torch.Tensor, torch.Tensor]]) -> None:
        for (number, *_), is_same in zip(alike, _each_equal(alike), strict=True):
            answers[number] = answers[number] and is_same
        alike.clear()

    for number, (first, second) in enumerate(pairs):
        leaves, others = values.leaves(first), values.leaves(second)
        answers.append(len(leaves) == len(others))
        for a, b in zip(leaves, others, strict=False):
            if answers[-1] and _is_left_to_the_device(a, b):
                key = a.dtype, a.device
                left[key].append((number, a, b))
                sizes[key] += a.numel()
                if sizes[key] > MOST_TOGETHER:
                    decide(left[key])
                    sizes[key] = 0
            else:
                answers[-1] = answers[-1] and _is_same(a, b)
    for alike in filter(None, left.values()):
        decide(alike)
    return answers


def _each_equal(pairs: Sequence[tuple[int, torch.Tensor, torch.Tensor]]) -> list[bool]:
    """By few launches, and one copy to main memory."""
    firsts = torch.cat([first.detach().reshape(-1) for _, first, _ in pairs])
    seconds = torch.cat([second.detach().reshape(-1) for _, _, second in pairs])
    parts = _in_each_element(firsts, seconds).split([first.numel() for _, first, _ in pairs])
    return [bool(answer) for answer in torch.stack([part.all() for part in parts]).tolist()]


def _is_left_to_the_device(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.device.type == HOST:
        return False
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.device == b.device and a.numel() <= MOST_TOGETHER)


def _in_each_element(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | ((a != a) & (b != b))


def repeats(first: Any, second: Any) -> bool:
    """Whether two answers are the same but for the order of additions among threads."""
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return _is_same(first, second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if torch.equal(first, second):
        return True
    if first.is_complex():
        first, second = torch.view_as_real(first), torch.view_as_real(second)
    if not first.dtype.is_floating_point or first.numel() == 0:
        return _is_same(first, second)
    slack = ORDER_SLACK * torch.finfo(first.dtype).eps
    size = current_device().chunk
    scale, _ = rms_of_finite(first.reshape(-1), size)
    pairs = zip(first.reshape(-1).split(size), second.reshape(-1).split(size), strict=True)
    return all(torch.allclose(a.double(), b.double(), rtol=slack, atol=slack * scale, equal_nan=True) for a, b in pairs)


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
        return False
    if not isinstance(a, torch.Tensor):
        return bool(a == b or (a != a and b != b)) or (type(a) is type(b) and objects.alike(a, b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.device != b.device:  # A module's tensor that is no buffer stays behind until its first call moves it.
        b = b.to(a.device)
    return torch.equal(a, b) or bool(_in_each_element(a, b).all())
