"""Inputs that are intact only while a call on them is timed.

What is launched on a stream of its own, without waiting for the current one, may run before the timed call begins,
beside the flush, and after it has ended. There it meets other numbers than those that it is called with.
"""

import os
from collections.abc import Sequence
from typing import Any

import torch

from . import values

SPOTS = 1024
"""Elements of a tensor that are replaced at most: their restoring is inside no timed call, but it fills the cache."""
ONE_OF = 64
"""And at most one of so many."""

_integer, _urandom = int.from_bytes, os.urandom
_Generator, _randint = torch.Generator, torch.randint
_copy = torch.Tensor.copy_
_index_select, _scatter, _set = torch.Tensor.index_select, torch.Tensor.scatter_, torch.Tensor.set_
_empty, _zeros_like, _untyped_storage = torch.empty, torch.zeros_like, torch.Tensor.untyped_storage
_numel, _element_size, _storage_offset = torch.Tensor.numel, torch.Tensor.element_size, torch.Tensor.storage_offset
_is_contiguous = torch.Tensor.is_contiguous
_WORD_TYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}
"""Every type has these operations as bits, and not every one by itself; of the largest ones half of the bits do."""


def generator(device: torch.device) -> torch.Generator:
    """Numbers that nobody can foretell, drawn where the inputs are: the candidate's own generator is not touched."""
    return _Generator(device).manual_seed(_drawn(1 << 63))


def only_read(inputs: list[Any], written: Sequence[int]) -> list[torch.Tensor]:
    """Tensors but those ``written`` by calls, by index: these are put back by themselves, and taken after the call."""
    return [tensor for index, tensor in enumerate(values.tensors_of(inputs)) if index not in written]


class Poisoning:
    """Replaces elements of one tensor of ``inputs``, drawn by chance, by other elements of it.

    So an index stays one, and nothing looks unusual. The tensor is the largest one half of the time.
    """

    __slots__ = ("_flat", "_right", "_spots", "_wrong")

    def __init__(self, inputs: list[Any], chance: torch.Generator) -> None:
        """Nothing is replaced yet; ``inputs`` must be intact."""
        tensors = [tensor for tensor in values.tensors_of(inputs) if _numel(tensor) > 1]
        self._flat: torch.Tensor | None = None
        if not tensors:
            return
        largest = max(tensors, key=_numel)
        chosen = tensors[_drawn(len(tensors))] if _drawn(2) else largest
        self._flat = flat = _flat(chosen)
        elements = _numel(chosen)
        count = max(1, min(SPOTS, elements // ONE_OF))
        drawn = (_randint(elements, (count,), generator=chance, device=flat.device) for _ in range(2))
        self._spots, others = (_offsets(indices, chosen) for indices in drawn)
        self._right, self._wrong = (_index_select(flat, 0, spots) for spots in (self._spots, others))

    def refresh(self) -> None:
        """Take the contents anew: the inputs hold others by now, all of them."""
        if self._flat is not None:
            _copy(self._right, _index_select(self._flat, 0, self._spots))

    def poison(self) -> None:
        """Queue the replacement on the current stream."""
        if self._flat is not None:
            _scatter(self._flat, 0, self._spots, self._wrong)

    def restore(self) -> None:
        """Queue putting back what was there, to the bit."""
        if self._flat is not None:
            _scatter(self._flat, 0, self._spots, self._right)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """What ``tensor`` lies in as a vector of words of its elements' size, its first element first.

    Not a view: a view would count its changes with the tensor, and a candidate could tell by that.
    """
    size = _element_size(tensor)
    word = _WORD_TYPES[size]
    storage = _untyped_storage(tensor)
    begin = _storage_offset(tensor) * size // word.itemsize
    return _set(_empty(0, dtype=word, device=tensor.device), storage)[begin:]


def _offsets(drawn: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Where in :func:`_flat` the elements with the numbers ``drawn`` lie."""
    words = _element_size(tensor) // _WORD_TYPES[_element_size(tensor)].itemsize
    if _is_contiguous(tensor):
        return drawn * words
    offsets = _zeros_like(drawn)
    for extent, step in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        offsets += drawn % extent * (step * words)
        drawn = drawn // extent
    return offsets


def _drawn(below: int) -> int:
    return _integer(_urandom(8), "little") % below
