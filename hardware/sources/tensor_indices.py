"""Indices of tensors: which dimensions they take, and which are positions, tensors of one integer."""

from collections.abc import Callable, Sequence
from typing import Any


def selected(tensor: Any, index: Any, select: Callable[[Any, int, Any], Any]) -> tuple[Any, Any]:
    """The part of ``tensor`` at the positions in ``index``, and what is left of that.

    ``select`` takes a tensor, a dimension and a position there, and gives the part.
    """
    items = index if isinstance(index, tuple) else (index,)
    widths = [_width(item) for item in items] if any(map(is_position, items)) else []
    if not widths or sum(widths) > tensor.ndim:
        return tensor, index
    dim, places = 0, []
    for item, width in zip(items, widths, strict=True):
        if is_position(item):
            places.append((dim, item))
        dim += tensor.ndim - sum(widths) if item is Ellipsis else width
    # From the last one on: what is taken out moves the dimensions behind it.
    for dim, position in reversed(places):
        tensor = select(tensor, dim, position)
    rest = tuple(item for item in items if not is_position(item))
    return tensor, () if all(map(_is_whole, rest)) else rest


def _is_whole(item: Any) -> bool:
    """Whether an index leaves what it indexes as it is."""
    return item is Ellipsis or (isinstance(item, slice) and item.start is item.stop is item.step is None)


def is_position(item: Any) -> bool:
    """Whether an index is a tensor of one integer without dimensions."""
    import torch

    if not isinstance(item, torch.Tensor) or item.ndim:
        return False
    return item.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)


def _width(item: Any) -> int:
    """How many dimensions an index takes: a mask as many as it has."""
    import numpy as np
    import torch

    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, torch.Tensor):
        return int(item.ndim) if item.dtype in (torch.bool, torch.uint8) else 1
    if isinstance(item, np.ndarray | np.generic):
        return int(item.ndim) if item.dtype == np.bool_ else 1
    depth = 0
    while isinstance(item, Sequence) and len(item):
        depth, item = depth + 1, item[0]
    return depth if isinstance(item, bool) else 1
