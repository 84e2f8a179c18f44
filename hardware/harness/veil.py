"""Inputs that are whole only while a call on them is timed.

What is launched on a stream of its own, without waiting for the current one, may run before the timed call begins,
beside the flush, and after it has ended. There it meets other numbers than those that it is called with.
"""

import os
from typing import Any

import torch

from . import values

SPOTS = 1024
"""Elements of a tensor that are replaced at most: their restoring is inside no timed call, but it fills the cache."""
ONE_OF = 64
"""And at most one of so many."""

_integer, _urandom = int.from_bytes, os.urandom
_Generator, _randint = torch.Generator, torch.randint
_as_strided, _index_select, _scatter = torch.Tensor.as_strided, torch.Tensor.index_select, torch.Tensor.scatter_
_view, _element_size = torch.Tensor.view, torch.Tensor.element_size
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}
"""Every type has these operations as bits, and not every one by itself."""


def generator(device: torch.device) -> torch.Generator:
    """Numbers that nobody can foretell, drawn where the inputs are: the candidate's own generator is not touched."""
    return _Generator(device).manual_seed(_drawn(1 << 63))


class Veil:
    """Replaces elements of one tensor of ``inputs``, drawn by chance, by other elements of it.

    So an index stays one, and nothing looks unusual. The tensor is the largest one half of the time.
    """

    __slots__ = ("_flat", "_right", "_spots", "_wrong")

    def __init__(self, inputs: list[Any], chance: torch.Generator) -> None:
        """Nothing is replaced yet; ``inputs`` must be whole."""
        tensors = [one for one in values.tensors_of(inputs) if one.numel() > 1]
        self._flat: torch.Tensor | None = None
        if not tensors:
            return
        largest = max(tensors, key=torch.Tensor.numel)
        chosen = tensors[_drawn(len(tensors))] if _drawn(2) else largest
        extent = 1 + sum((size - 1) * step for size, step in zip(chosen.shape, chosen.stride(), strict=True))
        self._flat = flat = _view(_as_strided(chosen, (extent,), (1,)), _WHOLE[_element_size(chosen)])
        extent, count = flat.numel(), max(1, min(SPOTS, extent // ONE_OF))
        self._spots, others = (_randint(extent, (count,), generator=chance, device=flat.device) for _ in range(2))
        self._right, self._wrong = (_index_select(flat, 0, spots) for spots in (self._spots, others))

    def spoil(self) -> None:
        """Queue the replacement on the current stream."""
        if self._flat is not None:
            _scatter(self._flat, 0, self._spots, self._wrong)

    def restore(self) -> None:
        """Queue putting back what was there, to the bit."""
        if self._flat is not None:
            _scatter(self._flat, 0, self._spots, self._right)


def _drawn(below: int) -> int:
    return _integer(_urandom(8), "little") % below
