"""Overwrites a few bytes of outputs when they are freed, so that later calls cannot reuse an old answer.

Memory that is freed stays with its process (docs/decisions/0008), so fresh outputs lie where old ones lay. Where a part
of the answer is always the same, such as the zeros beside a triangle, old outputs hold it: a call could leave it out.
"""

import ctypes
import random
import sys
from collections.abc import Iterable
from typing import Any

import torch

from ..tensors import values

PLACES = 4
"""Of each tensor, drawn each time: all bytes would take as long as the calls, and one is told by looking at it."""
_WIDTH, _PATTERN = 8, 0x7F
_REFERENCES = 4
"""Of a tensor that nobody holds but us: what holds what the call returned, the leaves, the variable, the argument."""
_use_count = torch._C._storage_Use_Count


def spoil(outputs: Iterable[Any]) -> None:
    """Overwrite some places of all memory that will be free once ``outputs`` are.

    What a kernel holds is its own affair, as is memory that torch did not allocate.
    """
    for output in outputs:
        for leaf in values.leaves(output):
            ours = _REFERENCES + (leaf is output)
            if type(leaf) is torch.Tensor and leaf.is_cpu and sys.getrefcount(leaf) <= ours and leaf._use_count() == 1:
                _spoil(leaf.untyped_storage())


def _spoil(storage: Any) -> None:
    room = storage.nbytes() - _WIDTH
    if room < 0 or not storage.resizable() or _use_count(storage._cdata) > 2:
        return
    begin = storage.data_ptr()
    for _ in range(PLACES):
        ctypes.memset(begin + random.randrange(0, room + 1, _WIDTH), _PATTERN, _WIDTH)
