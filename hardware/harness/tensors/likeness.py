"""Whether two values are the same: to the last digit, or but for the order of additions."""

from typing import Any

import torch

from ...processes import objects
from . import values
from .flat import rms_of_finite
from .tensor_placement import current_device

ORDER_SLACK = 256
"""Units in the last place that two runs of one reference may differ by."""


def same(first: Any, second: Any) -> bool:
    """Whether tensors, numbers, or lists of them are equal; a NaN is equal to a NaN."""
    left, right = values.leaves(first), values.leaves(second)
    return len(left) == len(right) and all(map(_is_same, left, right))


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
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())
