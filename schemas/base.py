"""How every schema is made, and how it becomes JSON and back."""

import hashlib
import math
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Schema(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen record. A new field has a default; a change of meaning is a new tag."""


_ENCODER = msgspec.json.Encoder(order=None)


def encode(value: Any) -> bytes:
    """Encode ``value`` as JSON.

    Raises:
        ValueError: a float in it is not finite. msgspec would write ``null``, which does not decode;
            a missing measurement is a status, never a NaN.
    """
    _refuse_non_finite(value, "")
    return _ENCODER.encode(value)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON into ``kind``; unknown fields are ignored, so newer writers stay readable.

    Raises:
        msgspec.ValidationError: the data does not have the shape of ``kind``.
    """
    return msgspec.json.decode(data, type=kind)


def sha256(data: bytes | str) -> str:
    """Hex sha256 of ``data`` (text as UTF-8)."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _refuse_non_finite(value: Any, path: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path or 'value'} is {value}: a float in an event must be finite")
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _refuse_non_finite(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_non_finite(item, f"{path}[{index}]")
