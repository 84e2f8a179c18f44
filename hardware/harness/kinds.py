"""Which inputs beside the problem's own a candidate is checked on, and at which shapes. Pure: no torch.

Every kind is made from a draw of the problem's own (:mod:`.derived`), and used only where the reference still means
something on it (:mod:`.meaning`). docs/judge.md says what each is good for.
"""

from collections.abc import Mapping, Sequence

from .sizes import LARGE_BYTES

NORMAL = "normal"
"""As the problem draws them."""

GRADIENTS = "gradients"
"""As the problem draws them, and cotangents behind them: what is asked for are gradients (:mod:`.gradients`)."""

STRIDED = "strided"
"""The same values in other places: transposed or padded storage."""

CENTRED = "centred"
"""What has no negative numbers gets some. Only where something wrong passes on the problem's own inputs, as the input
itself does for a ReLU of numbers between 0 and 1."""

VALUE_KINDS = ("heavy_tailed", "shifted", "ill_conditioned", "tiny", "infinite", "nan")
KINDS = (*VALUE_KINDS, STRIDED)

SPECIAL = ("infinite", "nan")
"""Kinds that hold numbers which are not finite, so that answers may be so, too."""

SMALL_BYTES = 4 << 20
"""Inputs up to this size are small: running a candidate on them costs next to nothing beside asking it."""
MOST_SHAPES = 2
BOTH = f"heavy_tailed+{STRIDED}"
"""What a problem with nothing but one large shape is checked on: one case more than the problem's own."""
ALL = f"{CENTRED}+{BOTH}"
"""The same where something wrong passes on the problem's own inputs; :data:`BOTH` if that means nothing."""

WORDS = {
    "heavy_tailed": "heavy-tailed",
    "ill_conditioned": "ill-conditioned",
    "tiny": "zero and denormal",
    "infinite": "infinite",
    "nan": "NaN",
}


def parts(kind: str) -> tuple[str, ...]:
    """The changes that ``kind`` stands for, in the order in which they are made."""
    return () if kind == NORMAL else tuple(kind.split("+"))


def allows_nonfinite(kind: str) -> bool:
    """Whether answers to inputs of ``kind`` may be NaN."""
    return any(part in SPECIAL for part in parts(kind))


def in_words(kind: str) -> str:
    """``kind`` as a sentence has it before "inputs"; empty for the problem's own."""
    return ", ".join(WORDS.get(part, part) for part in parts(kind))


def instead_of(kind: str) -> str:
    """What takes the place of ``kind`` where the reference means nothing on it; empty: nothing does."""
    return BOTH if kind == ALL else ""


def planned(sizes: Mapping[str, int], shapes: Sequence[str], *, decided: bool = True) -> list[tuple[str, str]]:
    """Shape and kind of every case to be made beside the problem's own.

    Small shapes that are not timed get all kinds, the largest first, :data:`MOST_SHAPES` of them; only the first of
    them gets those that single numbers make: they say nothing new at another size. The timed shape takes their part
    where there is no other. Where only large inputs are left, there is one case.

    Args:
        sizes: Bytes of the inputs by shape.
        shapes: Names of the shapes, the timed one first.
        decided: Whether the problem's own inputs show that wrong answers are wrong.
    """
    others = [shape for shape in shapes[1:] if sizes[shape] <= SMALL_BYTES]
    others.sort(key=lambda shape: -sizes[shape])
    if not others and len(shapes) > 1:
        others = [min(shapes[1:], key=lambda shape: sizes[shape])]
    lone = (others or shapes)[0]
    if sizes[lone] > (LARGE_BYTES if others else SMALL_BYTES):
        return [(lone, BOTH if decided else ALL)]
    first, *more = others[:MOST_SHAPES] or shapes[:1]
    kinds = KINDS if decided else (*KINDS, CENTRED)
    return [(first, kind) for kind in kinds] + [(shape, kind) for shape in more for kind in ("heavy_tailed", STRIDED)]
