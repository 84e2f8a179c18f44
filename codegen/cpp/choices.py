"""Values that depend on the position (concatenations, padding): where loops are split, and what each part computes."""

from collections.abc import Callable
from dataclasses import replace

from ..ir.build import const
from ..ir.poly import ONE, Poly
from ..ir.scalar import Scalar, rewrite
from .passes_types import Item

Path = tuple[tuple[Scalar, int], ...]
"""Choices by position that lead to a value, the outermost first, and which part of each is taken."""

_UNNAMED: Path = ((const(0, "bool"), -1),)
"""Of what is needed in several parts, or where something else decides."""


def guarded(
    items: list[Item], wanted: Callable[[Scalar], bool], varies: Callable[[frozenset[str]], bool]
) -> dict[str, Scalar]:
    """Values to compute ahead, by key: each where it is needed only, and 0 elsewhere.

    A part of a choice by position may read only where it is taken: its index is outside of memory at other places.
    What is needed in several parts, or by a choice on names that ``varies``, is left where it is.
    """
    paths: dict[str, Path] = {}
    stack: list[tuple[Scalar, Path]] = [(item.value, ()) for item in items]
    while stack:
        node, path = stack.pop()
        before = paths.get(node.key, path)
        shorter, longer = sorted((before, path), key=len)
        path = shorter if longer[: len(shorter)] == shorter else _UNNAMED
        if paths.get(node.key) == path:
            continue
        paths[node.key] = path
        is_choice = node.op == "piecewise" and path != _UNNAMED
        is_named = is_choice and not any(varies(p.names) for p in node.polys)
        for place, operand in enumerate(node.operands()):
            is_part = is_choice and place < len(node.args)
            stack.append((operand, path if not is_part else (*path, (node, place)) if is_named else _UNNAMED))
    nodes = (node for item in items for node in item.value.walk() if wanted(node))
    values = {node.key: _behind(node, paths[node.key]) for node in nodes if paths[node.key] != _UNNAMED}
    below = {b.key for key, value in values.items() for b in value.walk() if b.key != key}
    return {key: value for key, value in values.items() if key not in below}


def _behind(value: Scalar, path: Path) -> Scalar:
    """``value`` behind the choices that lead to it."""
    for piece, part in reversed(path):
        args = tuple(value if place == part else const(0, value.dtype) for place in range(len(piece.args)))
        value = Scalar("piecewise", value.dtype, args, piece.polys)
    return value


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
