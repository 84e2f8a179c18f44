"""Arguments as they travel between processes: structure in the message, tensors in a memory file beside it."""

from collections.abc import Iterable

from ...schemas import Schema


class TensorSpec(Schema, frozen=True, kw_only=True, tag="tensor"):
    """A tensor inside a memory file: its whole storage, and how the tensor lies in it."""

    dtype: str
    """As torch spells it: ``float32``."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """In elements."""
    storage_offset: int
    """In elements."""
    position: int
    """Where the storage begins in the file, bytes."""
    size: int
    """Bytes of the storage."""


class Sequence(Schema, frozen=True, kw_only=True, tag="sequence"):
    """A list or tuple."""

    items: "tuple[Value, ...]"
    is_tuple: bool


class Mapping(Schema, frozen=True, kw_only=True, tag="mapping"):
    """A dictionary with text keys."""

    items: "dict[str, Value]"


class DTypeValue(Schema, frozen=True, kw_only=True, tag="dtype"):
    """A torch.dtype."""

    name: str


class Object(Schema, frozen=True, kw_only=True, tag="object"):
    """Anything else that can be sent to another process: see :mod:`.objects`."""

    pickled: bytes
    tensors: "tuple[TensorSpec, ...]" = ()


Value = None | bool | int | float | str | TensorSpec | Sequence | Mapping | DTypeValue | Object
"""An argument as it travels."""


class Values(Schema, frozen=True, kw_only=True):
    """Arguments and the size of the memory file that holds their tensors (which travels beside the message)."""

    items: tuple[Value, ...]
    size: int
    """Bytes."""


def specs_of(values: Iterable[Value]) -> list[TensorSpec]:
    """Every tensor description in ``values``, depth first."""
    specs: list[TensorSpec] = []
    for value in values:
        if isinstance(value, TensorSpec):
            specs.append(value)
        elif isinstance(value, Sequence):
            specs += specs_of(value.items)
        elif isinstance(value, Mapping):
            specs += specs_of(value.items.values())
        elif isinstance(value, Object):
            specs += value.tensors
    return specs
