"""Indices that are tensors of one integer, as in ``cache[:, :, position]``, stay tensors while a module is traced."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def scalar_tensors_as_indices() -> Iterator[None]:
    """PyTorch reads such an index as a Python number, and a trace would hold for that number alone."""
    import torch

    kind = torch.Tensor
    plain_get, plain_put = kind.__getitem__, kind.__setitem__

    @functools.wraps(plain_get)
    def get(tensor: Any, index: Any) -> Any:
        items = _items(index)
        if not any(map(_is_position, items)):
            return plain_get(tensor, index)
        rest = tuple(item for item in items if not _is_position(item))
        # From the last one on: what is taken out moves the dimensions behind it.
        for dim, position in reversed(_positions(items, tensor.ndim)):
            place = (*dim * (slice(None),), position.reshape(1))
            tensor = plain_get(tensor, place).squeeze(dim)
        return plain_get(tensor, rest) if rest else tensor

    @functools.wraps(plain_put)
    def put(tensor: Any, index: Any, value: Any) -> None:
        items = _items(index)
        others = [item for item in items if not _is_position(item)]
        if len(others) == len(items) or any(isinstance(item, (kind, Sequence)) for item in others):
            plain_put(tensor, index, value)
            return
        whole = tuple(slice(None) if _is_position(item) else item for item in items)
        view = tensor if all(item is Ellipsis or item == slice(None) for item in whole) else plain_get(tensor, whole)
        positions = _positions([item for item in items if type(item) is not int], view.ndim, inserted=True)
        indices: list[Any] = [None] * view.ndim
        for dim, position in positions:
            indices[dim] = position.reshape(1)
        torch.ops.aten.index_put_(view, indices, _put_values(view, [dim for dim, _ in positions], value))

    with mock.patch.object(kind, "__getitem__", get), mock.patch.object(kind, "__setitem__", put):
        yield


def _put_values(view: Any, dims: Sequence[int], value: Any) -> Any:
    """``value`` for all of ``view`` but ``dims``, where one dimension of size 1 stands for them.

    It stands in their place if they are neighbours, and in front if they are not.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        return torch.scalar_tensor(value, dtype=view.dtype, device=view.device)
    rank = view.ndim - len(dims)
    if value.ndim > rank:
        value = value.reshape(value.shape[value.ndim - rank :])
    behind = view.ndim - 1 - dims[-1] if dims[-1] - dims[0] == len(dims) - 1 else rank
    return (value.unsqueeze(value.ndim - behind) if value.ndim >= behind else value).to(view.dtype)


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_position(item: Any) -> bool:
    import torch

    if not isinstance(item, torch.Tensor) or item.ndim:
        return False
    return item.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)


def _positions(items: Sequence[Any], rank: int, *, inserted: bool = False) -> list[tuple[int, Any]]:
    """Every index that is a position, behind the dimension that it takes of ``rank``.

    ``inserted``: ``None`` is a dimension as well, as in what is indexed.
    """
    width = [_width(item, inserted) for item in items]
    places, dim = [], 0
    for item, taken in zip(items, width, strict=True):
        if _is_position(item):
            places.append((dim, item))
        dim += rank - sum(width) if item is Ellipsis else taken
    return places


def _width(item: Any, inserted: bool) -> int:
    """How many dimensions an index takes."""
    import torch

    if item is Ellipsis or isinstance(item, bool):
        return 0
    if item is None:
        return int(inserted)
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return int(item.ndim)
    return 1
