"""Sizes of arguments, and the limits above which calls are checked less often. Pure: no torch."""

import math
from collections.abc import Sequence

LARGE_BYTES = 1 << 30
"""Inputs and outputs of one call from this size on are large: drawing, copying and comparing them takes seconds."""

REDRAWN_BYTES = 64 << 20
"""Inputs up to this size are drawn again where one draw does not decide."""

DIFFERENTIATED_BYTES = 32 << 20
"""Of inputs that a call is differentiated on, at most."""

MAIN_SEEDS = 3
"""Input sets of the timed shape that every candidate is checked on, and timed on in turn."""
OTHER_SEEDS = 2
LARGE_SEEDS = 2
"""The same where they are large: one less cannot show that an answer belongs to other inputs."""

_WIDTHS = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
    "complex128": 16,
}  # fmt: skip
"""Bytes of an element; 8 for the others."""


def bytes_of(shape: Sequence[int], dtype: str) -> int:
    """Bytes of the elements of a tensor; ``dtype`` as torch spells it."""
    return math.prod(shape) * width_of(dtype)


def wide_bytes_of(shape: Sequence[int], dtype: str) -> int:
    """The same where floating numbers, also those of complex ones, are in float64."""
    width = 8 if "float" in dtype else 16 if dtype.startswith("complex") else width_of(dtype)
    return math.prod(shape) * width


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements of a tensor certainly share memory, as those of an expanded one do; strides in elements."""
    steps = [(extent - 1) * step for extent, step in zip(shape, stride, strict=False) if extent > 1]
    return 0 not in shape and (0 in steps or sum(steps) + 1 < math.prod(shape)) if stride else False


def width_of(dtype: str) -> int:
    """Bytes of an element; ``dtype`` as torch spells it."""
    return _WIDTHS.get(dtype, 8)


def is_large(inputs: int, outputs: int) -> bool:
    """Whether a call that takes and returns so many bytes is checked on fewer input sets, and on none twice."""
    return inputs + outputs >= LARGE_BYTES


def left_out(inputs: int, outputs: int) -> str:
    """What is left out for a call of that size, and why; empty if nothing is."""
    if not is_large(inputs, outputs):
        return ""
    return (
        f"an input set and its outputs are {(inputs + outputs) / 1e9:.1f} GB: {LARGE_SEEDS} sets are used instead of "
        f"{MAIN_SEEDS}, and none of them twice"
    )
