"""Whether two values are the same: to the last digit, or but for the order of additions."""

from typing import Any

import torch

from . import values
from .compare import rms_of_finite
from .tensor_placement import here

ORDER_SLACK = 256
"""Units in the last place that two runs of one reference may differ by."""


def same(one: Any, other: Any) -> bool:
    """Whether tensors, numbers, or lists of them are equal; a NaN is equal to a NaN."""
    left, right = values.leaves(one), values.leaves(other)
    return len(left) == len(right) and all(map(_is_same, left, right))


def repeats(one: Any, other: Any) -> bool:
    """Whether two answers are the same but for the order of additions among threads."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return _is_same(one, other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if not one.dtype.is_floating_point or one.numel() == 0:
        return _is_same(one, other)
    slack = ORDER_SLACK * torch.finfo(one.dtype).eps
    size = here().chunk
    scale, _ = rms_of_finite(one.reshape(-1), size)
    pairs = zip(one.reshape(-1).split(size), other.reshape(-1).split(size), strict=True)
    return all(torch.allclose(a.double(), b.double(), rtol=slack, atol=slack * scale, equal_nan=True) for a, b in pairs)


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
        return False
    if not isinstance(a, torch.Tensor):
        return bool(a == b or (a != a and b != b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())
