"""Mean and variance of rows that are reduced in parts: of each part about its own mean, then of all together.

So what lies in memory is read once. Each part's distances are from its own mean, which its program finds in the same
elements, and the parts' means move them together (Chan, Golub and LeVeque 1983).
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..ir.build import binary, cast, index
from ..ir.loops import Accumulation, Kernel
from ..ir.poly import Poly
from ..ir.scalar import Scalar
from ..lowering.welford import VariancePair, variance_pairs

HELD = 256
"""Elements of a part of a column at most: so many are held in registers between its mean and its distances."""


def passes_of(kernel: Kernel, pairs: list[VariancePair]) -> Callable[[Scalar], int]:
    """In which pass a value is known; both of a pair are made in that of its sum."""
    rows = {a.name: a for a in kernel.accumulations.values() if a.level == "row"}
    first = {pair.squares.name: pair.total.name for pair in pairs}

    def known(value: Scalar) -> int:
        return max((made(name) + 1 for name in rows if f"@{name}" in value.names), default=0)

    @functools.cache
    def made(name: str) -> int:
        return known(rows[first.get(name, name)].body)

    return known


def about_own_means(kernel: Kernel, accumulations: Mapping[str, Accumulation], count: Poly) -> dict[str, Accumulation]:
    """``accumulations`` of a part of ``kernel`` that has ``count`` elements of each row."""
    pairs = {pair.squares.name: pair for pair in variance_pairs(kernel)}
    bodies = {a.name: a.body for a in accumulations.values()}

    def about(a: Accumulation) -> Accumulation:
        if a.name not in pairs:
            return a
        total = pairs[a.name].total
        distance = binary("sub", a.dtype, bodies[total.name], _mean(total, count))
        return replace(a, body=binary("mul", a.dtype, distance, distance))

    return {key: about(a) for key, a in accumulations.items()}


def moved_together(pair: VariancePair, sums: Scalar, squares: Scalar, count: Poly) -> Scalar:
    """What a part of ``count`` elements adds to the squared distances from the mean of all.

    Args:
        pair: of the whole row.
        sums: the part's sum.
        squares: its squared distances from its own mean.
        count: its elements.
    """
    dtype = pair.squares.dtype
    mean = pair.squares.body.args[0].args[1]
    elements = cast(index(count), dtype)
    between = binary("sub", dtype, binary("div", dtype, sums, elements), mean)
    return binary("add", dtype, squares, binary("mul", dtype, elements, binary("mul", dtype, between, between)))


def _mean(total: Accumulation, count: Poly) -> Scalar:
    return binary("div", total.dtype, Scalar("result", total.dtype, data=total.name), cast(index(count), total.dtype))
