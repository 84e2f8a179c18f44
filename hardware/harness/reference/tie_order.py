"""Operators whose answer is not defined where numbers are equal: which of them comes first is the implementation's.

``topk`` of a row of zeros returns some of its places. Another kernel that returns others is as right, so inputs on
which the answer hangs on that order say nothing of candidates. (``argmax`` and ``max`` return the first: defined.)
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_UNDEFINED = frozenset({_aten.topk, _aten.sort, _aten.kthvalue, _aten.median, _aten.nanmedian, _aten.mode})
"""Those that return values and places along a dimension."""


class TieOrder(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether such an operator met equal numbers; ``reverse``: has it take them in the other order."""

    def __init__(self, *, reverse: bool = False) -> None:
        super().__init__()
        self._reverse = reverse
        self.met = False
        """Whether one met equal numbers so far."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket not in _UNDEFINED:
            return func(*args, **kwargs)
        given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        values, dim = given["self"], given.get("dim", -1)
        # Without a dimension a median has no place; a stable sort is defined.
        if given.get("stable") or len(func._schema.returns) < 2 or not values.dim():
            return func(*args, **kwargs)
        last = values.shape[dim] - 1
        met = last > 0 and _has_equals(torch.sort(values, dim).values, dim)
        self.met = self.met or met
        if not met or not self._reverse:
            return func(*args, **kwargs)
        chosen, places = func(values.flip(dim), *args[1:], **kwargs)
        return chosen, last - places


def _has_equals(ordered: torch.Tensor, dim: int) -> bool:
    """Whether neighbours are equal; NaN are equal to one another, as sorting has it."""
    count = ordered.shape[dim] - 1
    one, next_one = ordered.narrow(dim, 0, count), ordered.narrow(dim, 1, count)
    return bool(((one == next_one) | (one.isnan() & next_one.isnan())).any())
