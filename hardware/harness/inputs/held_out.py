"""Shapes that the judge makes up beside the problem's own, against kernels for the named shapes alone. Pure: no torch.

Two are near or smaller than the named ones, and small. One is larger than the timed one: a kernel that takes another
path from some size on has to be right there, too. How much a problem lets be changed is found out by trying:
every size by itself, then only what keeps what the named ones have in common, then the first size alone.
"""

import math
import random
from collections.abc import Mapping, Sequence

from .variants import SMALL_BYTES

HELD_OUT = "held_out"
"""Every size is another one: odd, and no multiple of a named one."""
HELD_OUT_ALIKE = "held_out_alike"
"""Every size is another one, but a multiple of what all named ones are multiples of, also among each other."""
HELD_OUT_FIRST = "held_out_first"
"""The same for the first size alone, which is often the batch."""
HELD_OUT_VARIANTS = (HELD_OUT, HELD_OUT_ALIKE, HELD_OUT_FIRST)
LARGER = "held_out_larger"
"""One size is larger than at the timed shape, odd, and no multiple of a named one."""
LARGER_ALIKE = "held_out_larger_alike"
"""One size is larger, but a multiple of what all named ones are multiples of."""
LARGER_FIRST = "held_out_larger_first"
"""The same for the first size."""
LARGER_VARIANTS = (LARGER, LARGER_ALIKE, LARGER_FIRST)

LEAST_FACTOR, MOST_FACTOR = 1.1, 3.0
"""Inputs of a larger shape are between so many times as large as at the timed one."""
MOST_GROWTH = 12 << 20
"""Bytes by which they are larger at most."""
MOST_BYTES = 1 << 20
"""Bytes of inputs that a shape is made smaller to, the first sizes first."""
LEAST_SIZE = 8
"""Nothing is made smaller than that."""
MOST_DISCLOSED = 16
"""Times that made-up shapes are replaced once a verdict has named one: each costs memory for the session."""
MOST_DISCLOSED_BYTES = 1 << 30
"""Inputs and outputs of all that are replaced; where they are large, they are replaced fewer times."""
NO_SIZES = "its shapes have no sizes (integers above 1) that could be others"
ONE_SHAPE = "a KernelBench file has one shape, and its weights are made for that"

_MOST_COMMON = 64
"""A factor of named sizes that is kept at most: a single 4096 is not asked to stay 4096."""
_ODD_UP_TO, _TIMES_UP_TO = 9, 3
"""Small sizes may grow to this: there are too few below them."""
_TRIES = 64

Sizes = Mapping[str, int]


def bases(sizes: Sizes, timed: Mapping[str, bool]) -> list[tuple[str, tuple[str, ...]]]:
    """The named shapes that others are made from, each with the variants that are tried in turn.

    The largest small one that is not timed, every timed one, and these once more for a larger one.

    Args:
        sizes: Bytes of the inputs by shape.
        timed: Whether a call is too large for a larger one, by timed shape.
    """
    others = [shape for shape in sizes if shape not in timed]
    small = [shape for shape in others if sizes[shape] <= SMALL_BYTES]
    untimed = sorted(small, key=lambda shape: -sizes[shape]) or sorted(others, key=lambda shape: sizes[shape])
    larger = [(shape, LARGER_VARIANTS) for shape, large in timed.items() if not large]
    return [*((shape, HELD_OUT_VARIANTS) for shape in (*untimed[:1], *timed)), *larger]


def made_up(named: Mapping[str, Sizes], base: str, variant: str, size: int, seed: int) -> dict[str, int] | None:
    """Sizes that no named shape has; None where ``variant`` leaves none. What is 1 at ``base`` stays 1: it broadcasts.

    Args:
        named: The sizes of every shape.
        base: The shape whose sizes are changed.
        variant: Of :data:`HELD_OUT_VARIANTS` or :data:`LARGER_VARIANTS`.
        size: Bytes of the inputs at ``base``.
        seed: What they are drawn from.
    """
    if base not in named:
        return None
    groups = _groups(named, base)
    if variant in LARGER_VARIANTS:
        return _larger(named, base, variant, size, groups, random.Random(seed))
    ratios = _ratios(named, base, groups) if variant == HELD_OUT_ALIKE else {}
    common = {
        name: 1 if variant == HELD_OUT else math.gcd(_MOST_COMMON, *_named_values(named, name)) for name in groups
    }
    if variant == HELD_OUT_ALIKE and not ratios and set(common.values()) <= {1}:
        return None
    free = [name for name in groups if name not in ratios]
    if variant == HELD_OUT_FIRST:
        free = free[:1] if len(groups) > 1 else []
    drawn = _drawn(free, named, base, common, size / MOST_BYTES, random.Random(seed))
    for name, of in ratios.items():
        drawn[name] = drawn.get(of, named[base][of]) * (named[base][name] // named[base][of])
    candidate = {**named[base], **{twin: value for name, value in drawn.items() for twin in groups[name]}}
    return candidate if all(candidate != dict(sizes) for sizes in named.values()) else None


def _larger(
    named: Mapping[str, Sizes], base: str, variant: str, size: int, groups: Mapping[str, list[str]], draw: random.Random
) -> dict[str, int] | None:
    """The sizes of ``base`` but for one, drawn among those that can grow by little enough."""
    most = min(MOST_FACTOR, 1 + MOST_GROWTH / max(size, 1))
    ratios = _ratios(named, base, groups) if variant == LARGER_ALIKE else {}
    names = [name for name in groups if name not in ratios.values()]
    candidates: dict[str, int] = {}
    for name in names[:1] if variant == LARGER_FIRST else names:
        common = 1 if variant == LARGER else math.gcd(_MOST_COMMON, *_named_values(named, name))
        step = math.lcm(common, named[base][ratios[name]]) if name in ratios else common
        value = _grown(named[base][name], len(groups[name]), most, step, _named_values(named, name), draw)
        candidates |= {name: value} if value else {}
    if not candidates:
        return None
    name = draw.choice(list(candidates))
    return {**named[base], **dict.fromkeys(groups[name], candidates[name])}


def _grown(value: int, power: int, most: float, step: int, named_values: set[int], draw: random.Random) -> int:
    """A multiple of ``step`` above ``value`` that is not among ``named_values``, odd if ``step`` is 1; 0: none.

    Inputs grow by its ``power``-th power, and by ``most`` at most.
    """
    low = value * min(LEAST_FACTOR, most) ** (1 / power) / step
    high = int(value * most ** (1 / power)) // step
    for _ in range(_TRIES if high >= low else 0):
        multiple = step * draw.randint(math.ceil(low), high)
        if multiple in named_values or (
            step == 1 and (multiple % 2 == 0 or any(multiple % size == 0 for size in named_values if size > 1))
        ):
            continue
        return multiple
    return 0


def in_words(sizes: Sizes) -> str:
    """What a made-up shape is called: ``rows=35, cols=253``."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _groups(named: Mapping[str, Sizes], base: str) -> dict[str, list[str]]:
    """Sizes that are equal in every shape, by the first of them: they are one size with several names."""
    groups: dict[tuple[int | None, ...], list[str]] = {}
    for name, value in named[base].items():
        if value > 1:
            groups.setdefault(tuple(sizes.get(name) for sizes in named.values()), []).append(name)
    return {names[0]: names for names in groups.values()}


def _named_values(named: Mapping[str, Sizes], name: str) -> set[int]:
    return {sizes[name] for sizes in named.values() if name in sizes}


def _pairs(named: Mapping[str, Sizes], first: str, second: str) -> list[tuple[int, int]]:
    return [(sizes[first], sizes[second]) for sizes in named.values() if first in sizes and second in sizes]


def _ratios(named: Mapping[str, Sizes], base: str, groups: Mapping[str, list[str]]) -> dict[str, str]:
    """Sizes that are multiples of another one wherever both are named, smallest first, each with the largest such."""
    ratios: dict[str, str] = {}
    for name in sorted(groups, key=lambda name: named[base][name]):
        for divisor in groups:
            pairs = _pairs(named, name, divisor)
            if not all(b > 0 and a % b == 0 for a, b in pairs) or not any(1 < b < a for a, b in pairs):
                continue
            if name not in ratios or named[base][divisor] > named[base][ratios[name]]:
                ratios[name] = divisor
    return ratios


def _drawn(
    names: Sequence[str], named: Mapping[str, Sizes], base: str, common: Sizes, excess: float, draw: random.Random
) -> dict[str, int]:
    """Another value for each of ``names``. While inputs are ``excess`` times too large, sizes are made smaller.

    What is never larger than another size in the named shapes is not larger here.
    """
    drawn: dict[str, int] = {}
    for name in names:
        value = named[base][name]
        target = max(LEAST_SIZE, int(value / excess)) if excess > 1 and value > LEAST_SIZE else value
        above = [drawn[size_name] for size_name in drawn if all(a >= b for a, b in _pairs(named, name, size_name))]
        below = [drawn[size_name] for size_name in drawn if all(a <= b for a, b in _pairs(named, name, size_name))]
        multiple = _another(
            target, max(above, default=0), min(below, default=0), _named_values(named, name), common[name], draw
        )
        if multiple:
            drawn[name] = multiple
            excess *= multiple / value
    return drawn


def _another(value: int, least: int, most: int, named_values: set[int], common: int, draw: random.Random) -> int:
    """An odd multiple of ``common`` near below ``value``, not among ``named_values`` nor a multiple of one; 0: none.

    It is at least ``least`` and, if that is not 0, at most ``most``.
    """
    high = max(value, common * (_ODD_UP_TO if common == 1 else _TIMES_UP_TO), least and least + LEAST_SIZE * common)
    high = min(high, most) if most else high
    low = max(least, min(value, high) // 2) // common
    for _ in range(_TRIES if high >= common else 0):
        multiple = common * ((draw.randint(min(max(low, 1), high // common), high // common) - 1) | 1)
        if multiple < max(least, 2) or multiple in named_values:
            continue
        if common > 1 or all(multiple % size for size in named_values if size > 1):
            return multiple
    return 0
