"""Indices that are tensors of one integer, as in ``cache[:, :, position]``, while a call with real tensors is traced.

PyTorch reads such an index as a Python number, which no graph can hold. Here it is an index of one element. What was
read so is a copy where PyTorch gives a view: whoever writes to either later is refused.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

from .tensor_indices import is_position, selected

CHANGED = (
    "it reads a tensor at a position that is a tensor without dimensions, and writes to that tensor, or to what was "
    "read, later; write `tensor[position] = value` before it is read, or read `tensor.index_select(dim, "
    "position.view(1))`"
)
"""Why such a call cannot be traced, as a clause."""


class PositionsAsIndices(TorchFunctionMode):  # type: ignore[misc]
    """While it is open, what is indexed by tensors of one integer is indexed by tensors of one element."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[int, _Read] = {}
        """By the ``id`` of what was read."""
        self._sizes: list[tuple[Any, int]] = []
        """Positions, and the size of a dimension that each has indexed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__ and any(map(_is_traced, _items(args[1]))):
            return self._get(*args)
        if func is torch.Tensor.__setitem__ and any(map(_is_traced, _items(args[1]))):
            self._put(*args)
            return None
        return func(*args, **kwargs or {})

    @property
    def is_changed(self) -> bool:
        """Whether something was written to that PyTorch would have shown, or hidden, elsewhere."""
        return any(read.is_changed for read in self._read.values())

    def bounds(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """The least size that inputs have indexed, as far as their types go, by their names."""
        least: dict[str, int] = {}
        for position, size in self._sizes:
            for label, value in inputs.items():
                if value is position:
                    least[label] = min(size, least.get(label, size), torch.iinfo(value.dtype).max)
        return least

    def _get(self, tensor: Any, index: Any) -> Any:
        # Tensors of inference mode count no writes.
        part, rest = (tensor, index) if tensor.is_inference() else selected(tensor, index, self._row)
        if part is tensor:
            return tensor[index]
        read = part[rest] if rest else part
        self._read[id(read)] = _Read((tensor, part, read), index)
        return read

    def _row(self, tensor: Any, dim: int, position: Any) -> Any:
        self._sizes.append((position, tensor.shape[dim]))
        return tensor[(*dim * (slice(None),), _one_element(position))].squeeze(dim)

    def _put(self, tensor: Any, index: Any, value: Any) -> None:
        items = list(_items(index))
        places = [place for place, item in enumerate(items) if is_position(item)]
        if len(places) > 1 or any(map(_is_advanced, items)) or not _is_traced(items[places[0]]):
            tensor[index] = value
            return
        (place,) = places
        read = self._read.get(id(value))
        spread = tensor.ndim - sum(item is not None and item is not Ellipsis for item in items)
        dims = [spread if item is Ellipsis else 0 if isinstance(item, int) else 1 for item in items[place + 1 :]]
        behind = sum(dims) if Ellipsis in items else sum(dims) + spread
        before = sum(item is not None for item in items[:place]) + (spread - 1) * (Ellipsis in items[:place])
        self._sizes.append((items[place], tensor.shape[before]))
        if isinstance(value, torch.Tensor) and value.ndim > behind:
            value = value.unsqueeze(value.ndim - behind)
        items[place] = _one_element(items[place])
        tensor[tuple(items)] = value
        if read is not None and read.tensors[0] is tensor and read.index is index:
            # What `tensor[position] += value` had read is where it was again.
            read.note()


class _Read:
    """What was read at a position: it, and what it was read from, must not be written to any more."""

    def __init__(self, tensors: tuple[Any, ...], index: Any) -> None:
        self.tensors, self.index = tensors, index
        self.note()

    def note(self) -> None:
        """What was written by now is known."""
        self._versions = [tensor._version for tensor in self.tensors]

    @property
    def is_changed(self) -> bool:
        """Whether somebody wrote to one of them since."""
        return any(tensor._version != version for tensor, version in zip(self.tensors, self._versions, strict=True))


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_traced(item: Any) -> bool:
    mode = proxy_tensor.get_proxy_mode()
    return mode is not None and is_position(item) and proxy_tensor.has_proxy_slot(item, mode.tracer)


def _is_advanced(item: Any) -> bool:
    is_basic = item is None or item is Ellipsis or isinstance(item, int | slice) or is_position(item)
    return isinstance(item, bool) or not is_basic


def _one_element(position: Any) -> Any:
    return position.view(1) if position.dtype in (torch.int32, torch.int64) else position.view(1).long()
