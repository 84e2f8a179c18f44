"""Settings of a module as they were: what lists and dictionaries hold may be changed in place."""

from dataclasses import dataclass
from typing import Any

import torch

SIMPLE = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)
"""Types whose values are the same where they are equal."""


@dataclass(frozen=True)
class _Container:
    kind: type[Any]
    keys: tuple[Any, ...] | None
    """Of a dictionary, in order; None for a list or tuple."""
    values: tuple[Any, ...]


def kept(value: Any) -> Any:
    """``value``, where it is a list, tuple or dictionary with what it holds now, all the way down."""
    if isinstance(value, dict):
        return _Container(type(value), tuple(value), tuple(map(kept, value.values())))
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return _Container(type(value), None, tuple(map(kept, value)))
    return value


def is_as(now: Any, before: Any) -> bool:
    """Whether a setting says what it said when it was :func:`kept`, as far as that can be told.

    What an object holds that is none of these is not looked into.
    """
    if now is before:
        return True
    if isinstance(before, _Container):
        if type(now) is not before.kind or len(now) != len(before.values):
            return False
        if before.keys is not None and tuple(now) != before.keys:
            return False
        values = now if before.keys is None else now.values()
        return all(map(is_as, values, before.values))
    return type(now) is type(before) and isinstance(now, SIMPLE) and bool(now == before)
