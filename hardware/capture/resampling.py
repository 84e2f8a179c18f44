"""Linear interpolation as PyTorch's kernels compute it, spelled out for traces.

PyTorch's own decomposition has ``a + (b - a) * w``, which is not a number where ``a`` is infinite and the kernels give
infinity, and places elements in half precision where the tensor has it, which fails from 256 elements on.
"""

from collections.abc import Sequence
from typing import Any


def upsample_linear(x: Any, output_size: Any, align_corners: bool, scale_factors: Sequence[float] | None) -> Any:
    """``aten.upsample_linear1d``, ``bilinear2d`` and ``trilinear3d`` with a size or factors: ``(n, c, …)`` to the same.

    Args:
        x: floating tensor, two dimensions in front of those that are resampled.
        output_size: of the resampled dimensions; None if ``scale_factors`` say it.
        align_corners: whether the first and last elements' centres stay, not their borders.
        scale_factors: of the resampled dimensions; None if ``output_size`` says it.
    """
    import torch

    values = x if x.dtype is torch.float64 else x.float()
    for k in reversed(range(x.ndim - 2)):
        factor = scale_factors[k] if scale_factors else None
        size = output_size[k] if factor is None else _size(x.shape[k + 2], factor)
        values = _along(values, k + 2, size, align_corners, factor)
    return values.to(x.dtype)


def _size(size: Any, factor: float) -> Any:
    import torch

    return size * int(factor) if factor == int(factor) else torch.sym_int(size * factor)


def _along(values: Any, dim: int, size: Any, align_corners: bool, factor: float | None) -> Any:
    """Every new element is a weighted mean of two neighbours along ``dim``."""
    import torch

    given = values.shape[dim]
    position = torch.arange(size, device=values.device).to(values.dtype)
    if align_corners:
        source = position * ((given - 1) / torch.sym_max(size - 1, 1))
    else:
        source = ((position + 0.5) * (1 / factor if factor else given / size) - 0.5).clamp(min=0.0)
    low = source.to(torch.int64).clamp(0, given - 1)
    high = (low + 1).clamp(0, given - 1)
    weight = (source - low).clamp(0.0, 1.0).reshape(size, *[1] * (values.ndim - 1 - dim))
    first, second = (torch.ops.aten._unsafe_index(values, [None] * dim + [place]) for place in (low, high))
    return first * (1 - weight) + second * weight
