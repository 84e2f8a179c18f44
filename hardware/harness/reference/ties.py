"""Tests whether a wrong output has the right elements in another order, as sorts and top-k permit for equal values.

The order that the reference gives counts, so such an answer is wrong all the same; but its author should know that
nothing is wrong with the arithmetic.
"""

from collections.abc import Iterator, Sequence

import torch

MOST_ELEMENTS = 1 << 24
"""Indices of a larger output are not looked at."""

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


def names_equal_values(got: torch.Tensor, right: torch.Tensor, values: Sequence[torch.Tensor]) -> bool:
    """Whether two tensors of indices differ in the order of equal elements of one of ``values`` alone.

    Args:
        got: What a candidate returned, of an integer type.
        right: What the reference returns, of the same shape.
        values: What may be indexed: floating inputs, and outputs of the reference. One that has the indices' shape, but
            for one dimension, is looked up in; one of their shape may also be what stands beside them.
    """
    if got.dtype not in _INTEGERS or got.numel() > MOST_ELEMENTS or got.shape != right.shape or not got.dim():
        return False
    got, right = got.long(), right.long()
    return any(
        _points_at_equal(got, right, tensor, dim) or _is_reordered(got, right, tensor, dim)
        for tensor in values
        for dim in reversed(range(tensor.dim()))
    )


def _points_at_equal(got: torch.Tensor, right: torch.Tensor, values: torch.Tensor, dim: int) -> bool:
    """Whether both point at the same values along ``dim``, each element at most once."""
    if values.dim() == got.dim() + 1:  # argmax without the dimension
        got, right = got.unsqueeze(dim), right.unsqueeze(dim)
    if values.dim() != got.dim() or _others(values, dim) != _others(got, dim):
        return False
    extent = values.shape[dim]
    if any(bool(((index < 0) | (index >= extent)).any()) for index in (got, right)):
        return False
    ordered = got.sort(dim).values
    if bool((ordered.diff(dim=dim) == 0).any()):
        return False
    return bool((values.gather(dim, got) == values.gather(dim, right)).all())


def _is_reordered(got: torch.Tensor, right: torch.Tensor, values: torch.Tensor, dim: int) -> bool:
    """Whether ``values`` stand beside the indices, and the same index always beside the same value."""
    if values.shape != got.shape:
        return False
    ours, theirs = got.sort(dim), right.sort(dim)
    if not torch.equal(ours.values, theirs.values):
        return False
    return bool((values.gather(dim, ours.indices) == values.gather(dim, theirs.indices)).all())


def _others(tensor: torch.Tensor, dim: int) -> tuple[int, ...]:
    return tuple(extent for at, extent in enumerate(tensor.shape) if at != dim)


def floating(values: Sequence[object]) -> Iterator[torch.Tensor]:
    """The real floating tensors among ``values``."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            yield value
