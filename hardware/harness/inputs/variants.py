"""Which inputs beside the problem's own a candidate is checked on, and at which shapes. Pure: no torch.

Every variant is made from a draw of the problem's own (:mod:`..reference.derived`), and used only where the reference
still means something on it (:mod:`..reference.validity`). docs/judge/inputs.md says what each is good for.
"""

from collections.abc import Iterable, Mapping

from .sizes import LARGE_BYTES

NORMAL = "normal"
"""As the problem draws them."""

GRADIENTS = "gradients"
"""As the problem draws them, and cotangents behind them: gradients are asked for (:mod:`..reference.gradients`)."""

STRIDED = "strided"
"""The same values in other places: transposed or padded storage."""

CENTRED = "centred"
"""What has no negative numbers gets some. Only where something wrong passes on the problem's own inputs, as the input
itself does for a ReLU of numbers between 0 and 1."""

SPREAD = "spread"
"""Every row is scaled by a factor of its own. Where :data:`CENTRED` is used: a network that forgets its usual inputs
answers other ones when they are larger."""

UNDECIDED = (CENTRED, SPREAD)
"""Variants that are used only where a wrong answer passes on the problem's own inputs."""

DOMINATED = "dominated"
"""A few numbers of every row hold nearly all of what is summed over: an error in one of them shows in a mean."""

REPEATED = "repeated"
"""All numbers but one of every row are the same: what is a little wrong with each of them does not average out."""

VALUE_VARIANTS = ("heavy_tailed", "shifted", "ill_conditioned", DOMINATED, REPEATED, "tiny", "infinite", "nan")
VARIANTS = (*VALUE_VARIANTS, STRIDED)

SPECIAL = ("infinite", "nan")
"""Variants that hold numbers which are not finite, so that answers may be so, too."""

SMALL_BYTES = 4 << 20
"""Inputs up to this size are small: running a candidate on them costs next to nothing beside asking it."""
MOST_SHAPES = 2
MOST_TIMED_BYTES = 128 << 20
"""Inputs and outputs of all cases together that are made at the timed shape from its own inputs."""
BOTH = f"heavy_tailed+{STRIDED}"
"""Two variants in one case, where the timed shape has no room for a case of each."""
ALL = f"{CENTRED}+{BOTH}"
"""The same where something wrong passes on the problem's own inputs; :data:`BOTH` if that means nothing."""
FAR = ("heavy_tailed", "ill_conditioned", "shifted")
FEW = (DOMINATED, REPEATED)
"""Variants that go into blocks of rows of the same case where there is no room for a case of each. The first ones move
answers far, and would raise the bound of the others."""
REDUCED = 16
"""Outputs that are so many times smaller than inputs cost little to compare."""
SPARSE_CHANGES = "tiny+infinite+nan"
"""Variants that change a few numbers, in one case. It has no others: a kernel that looks for NaN would take its right
path there, and show nothing of what it does with strides and finite numbers."""
DRAFTS = (NORMAL, STRIDED, SPARSE_CHANGES)
"""Inputs that an author's draft is tried on, where they are small."""
NO_ROOM = "the timed shape is too large for another case"

WORDS = {
    "heavy_tailed": "heavy-tailed",
    "ill_conditioned": "ill-conditioned",
    "tiny": "zero and denormal",
    "infinite": "infinite",
    "nan": "NaN",
}


def blocks(variant: str) -> tuple[str, ...]:
    """The variants that take turns along the first dimension; ``variant`` alone where it is the same everywhere."""
    return tuple(variant.split("|"))


def parts(variant: str) -> tuple[str, ...]:
    """The changes that ``variant`` stands for, in the order in which they are made."""
    return () if variant == NORMAL else tuple(variant.replace("|", "+").split("+"))


def allows_nonfinite(variant: str) -> bool:
    """Whether answers to inputs of ``variant`` may be NaN."""
    return any(part in SPECIAL for part in parts(variant))


def shows_undecided(names: Iterable[str]) -> bool:
    """Whether input kinds of these names say that the problem's own inputs let a wrong answer pass."""
    return any(part in UNDECIDED for name in names for part in parts(name))


def in_words(variant: str) -> str:
    """``variant`` as a sentence has it before "inputs"; empty for the problem's own."""
    return ", ".join(WORDS.get(part, part) for part in parts(variant))


def instead_of(variant: str) -> tuple[str, ...]:
    """What replaces ``variant`` where it is invalid: of blocks it may be one alone."""
    substitutes = {SPARSE_CHANGES: ("tiny",), ALL: (BOTH,), BOTH: (STRIDED,)}
    return substitutes.get(variant, blocks(variant) if len(blocks(variant)) > 1 else ())


def planned(sizes: Mapping[str, int], calls: Mapping[str, int], *, decided: bool = True) -> list[tuple[str, str]]:
    """Shape and variant of every case to be made beside the problem's own.

    Small shapes that are not timed get all variants, the largest first, :data:`MOST_SHAPES` of them; only the first of
    them gets those that single numbers make: they say nothing new at another small size. If no other shape is small,
    the smallest gets one case. Every timed shape gets all variants, too: a kernel may take another path there.

    Args:
        sizes: Bytes of the inputs by shape.
        calls: Bytes of the inputs and outputs of a call by timed shape.
        decided: Whether the problem's own inputs show that wrong answers are wrong.
    """
    others = sorted((shape for shape in sizes if shape not in calls), key=lambda shape: -sizes[shape])
    small = [shape for shape in others if sizes[shape] <= SMALL_BYTES][:MOST_SHAPES]
    cases = [(shape, BOTH if decided else ALL) for shape in others[-1:]]
    if small:
        first, *more = small
        variants = VARIANTS if decided else (*VARIANTS, *UNDECIDED)
        cases = [(first, variant) for variant in variants] + [
            (shape, variant) for shape in more for variant in ("heavy_tailed", STRIDED)
        ]
    for timed, call in calls.items():
        reduces = call - sizes[timed] <= sizes[timed] // REDUCED
        cases += [(timed, variant) for variant in _at_timed_shape(call, reduces=reduces, decided=decided)]
    return cases


def left_out(call: int, *, decided: bool = True) -> tuple[str, ...]:
    """Variants for which a timed shape has no room; ``call`` as for :func:`planned`, of that shape."""
    included = {part for variant in _at_timed_shape(call, decided=decided) for part in parts(variant)}
    return tuple(variant for variant in VARIANTS if variant not in included)


def _at_timed_shape(call: int, *, reduces: bool = False, decided: bool = True) -> list[str]:
    """The variants of its cases, of those inputs that fit into :data:`MOST_TIMED_BYTES`."""
    room = MOST_TIMED_BYTES // max(call, 1)
    more = [] if decided else [*UNDECIDED]
    if room >= len(VARIANTS):
        return [*VARIANTS, *more]
    if room > len(FAR) + len(FEW) + 1:
        return [*FAR, *FEW, STRIDED, SPARSE_CHANGES, *more]
    if room > 2:
        return ["|".join(FAR), *(FEW if reduces else ["|".join(FEW)]), STRIDED, SPARSE_CHANGES, *more]
    # Where answers are not finite they are kept once more, for which memory has no room beside the largest ones.
    sparse = [SPARSE_CHANGES] if call < LARGE_BYTES else []
    return ["|".join((*FAR, *FEW)), *([BOTH, *sparse] if decided else [ALL, SPREAD])]
