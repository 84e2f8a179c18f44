"""Choices by position, as concatenations and padding make them: which one loops are split for, and what that leaves of
the others."""

from collections.abc import Callable
from dataclasses import replace

from ..ir.poly import ONE, Poly
from ..ir.scalar import Scalar, rewrite
from .passes_types import Item


def choice_along(items: list[Item], variable: str) -> Scalar | None:
    """The choice for which a loop over ``variable`` is split."""

    def moves(node: Scalar) -> bool:
        bounded = not any(variable in bound.names for bound in node.polys[1:])
        return bounded and node.polys[0].coefficient(variable) == ONE

    return _outermost(items, moves)


def choice_outside(items: list[Item], inner: set[str]) -> Scalar | None:
    """The choice that is the same all along loops over ``inner``."""
    return _outermost(items, lambda node: not any(p.names & inner for p in node.polys))


def _outermost(items: list[Item], fits: Callable[[Scalar], bool]) -> Scalar | None:
    """The choice to make first. The outermost one: once it is made, the choices in its other parts are gone; beginning
    with the innermost would double the loops with each choice around it.
    """
    for item in items:
        choices = [node for node in item.value.walk() if node.op == "piecewise" and fits(node)]
        if choices:
            return choices[-1]
    return None


def chosen(items: list[Item], piece: Scalar, part: int) -> list[Item]:
    """The items where ``piece`` takes that part, without what other choices cannot take there.

    The elements of a window in padding choose at neighbouring positions: of all their parts together few go together.
    """
    position, *bounds = piece.polys
    below = position - bounds[part] if part < len(bounds) else None
    above = position - bounds[part - 1] if part else None

    def change(node: Scalar) -> Scalar | None:
        if node.op != "piecewise":
            return None
        return node.args[part] if node.polys == piece.polys else _narrowed(node, below, above)

    return [replace(item, value=rewrite(item.value, change)) for item in items]


def _narrowed(node: Scalar, below: Poly | None, above: Poly | None) -> Scalar:
    """``node`` where ``below`` is negative and ``above`` is not: its parts between the bounds that are left."""
    position, *bounds = node.polys
    first, last = 0, len(bounds)
    for place, bound in enumerate(bounds):
        distance = position - bound
        behind = (distance - above).constant if above is not None else None
        ahead = (distance - below).constant if below is not None else None
        if behind is not None and behind >= 0:
            first = place + 1
        if ahead is not None and ahead <= 0:
            last = min(last, place)
    if first >= last:
        return node.args[last]
    if (first, last) == (0, len(bounds)):
        return node
    return replace(node, args=node.args[first : last + 1], polys=(position, *bounds[first:last]))
