"""Index functions: where in its base an element of a view comes from. A view moves no data."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from ...schemas import Arg, Expr, Items, Node, TensorMeta
from ..ir.build import Unsupported
from ..ir.poly import ONE, UNKNOWN, ZERO, Poly, atom_key, atom_names, divide, modulo, poly
from ..ir.printing import python_poly
from .calls import dim_argument

Index = tuple[Poly, ...]

VIEWS = {
    "view", "_unsafe_view", "reshape", "expand", "permute", "transpose", "t", "unsqueeze", "squeeze", "slice",
    "select", "split_with_sizes", "split", "flip", "repeat", "unbind",
}  # fmt: skip
"""Operators whose elements are elements of their first argument."""

RESHAPES = {"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"}
"""Views that keep the order of the elements: on a contiguous tensor they are free."""


def size(arg: Arg) -> Poly:
    """A size argument as a polynomial."""
    if isinstance(arg, Expr):
        return poly(arg.value)
    if isinstance(arg, int):
        return poly(arg)
    raise ValueError(f"{arg!r} is no size")


def expressions(args: Iterable[Arg]) -> Iterator[str]:
    """The text of every size that is computed among arguments."""
    for arg in args:
        if isinstance(arg, Items):
            yield from expressions(arg.items)
        elif isinstance(arg, Expr):
            yield arg.value


def dim_of(value: Poly) -> int | str:
    """A polynomial as a size of a shape."""
    return value.constant if value.constant is not None else python_poly(value)


def size_argument(value: Poly) -> Arg:
    """A polynomial as a size argument."""
    return dim_argument(dim_of(value))


def resized(meta: TensorMeta, dim: int, size: Poly, example: int) -> TensorMeta:
    """``meta`` with another size, which is ``example`` at the captured inputs."""
    examples = (*meta.example[:dim], example, *meta.example[dim + 1 :]) if meta.example else ()
    return structs.replace(
        meta, shape=(*meta.shape[:dim], dim_of(size), *meta.shape[dim + 1 :]), example=examples, strides=()
    )


def sizes(arg: Arg) -> list[Poly]:
    """A list of sizes."""
    assert isinstance(arg, Items)
    return [size(item) for item in arg.items]


def shape_of(node: Node, value: int = 0) -> Index:
    """Symbolic shape of a node's result."""
    return tuple(poly(dim) for dim in node.values[value].shape)


def squeezed(shape: Iterable[Poly]) -> Index:
    """A shape without its dimensions of size 1."""
    return tuple(size for size in shape if size != ONE)


def spread(shape: Index, variables: Iterable[Poly]) -> Index:
    """Loop variables on the dimensions of a shape that are not 1."""
    rest = iter(variables)
    return tuple(ZERO if size == ONE else next(rest) for size in shape)


def dims_of(arg: Arg, rank: int) -> tuple[int, ...]:
    """A dimension or a list of them, negative ones counted from the end; nothing means all."""
    if arg is None:
        return tuple(range(rank))
    items = arg.items if isinstance(arg, Items) else (arg,)
    dims = tuple(int(dim) % max(rank, 1) for dim in items if isinstance(dim, int))
    return dims or tuple(range(rank))


def quotients(index: Index, variable: str) -> int:
    """How many different quotients and remainders by sizes an index needs wherever ``variable`` changes."""
    keys: set[str] = set()

    def visit(value: Poly) -> None:
        for monomial, _ in value.terms:
            for atom in monomial:
                if isinstance(atom, tuple) and atom[0] in ("//", "%") and variable in atom_names(atom):
                    if atom[2].constant is None:
                        keys.add(atom_key(atom))
                    visit(atom[1])

    for position in index:
        visit(position)
    return len(keys)


def linear(index: Sequence[Poly], shape: Sequence[Poly]) -> Poly:
    """Offset of an element in a contiguous tensor, in elements."""
    offset, stride = ZERO, ONE
    for position, extent in zip(reversed(index), reversed(shape), strict=True):
        offset = offset + position * stride
        stride = stride * extent
    return offset


def broadcast(index: Index, shape: Index) -> Index:
    """Index into an operand of ``shape`` for the element ``index`` of the broadcast result."""
    tail = index[len(index) - len(shape) :]
    return tuple(ZERO if extent == ONE else position for position, extent in zip(tail, shape, strict=True))


def source_index(node: Node, name: str, base: Index, index: Index, item: int, bounds: Mapping[str, Poly]) -> Index:
    """Index into the base (of shape ``base``) of element ``index`` of the view ``node``.

    Args:
        node: the view.
        name: its operator without namespace and overload.
        base: shape of its first argument.
        index: element of the view.
        item: which of its results, for an operator that returns several.
        bounds: exclusive upper bounds of loop variables, to simplify quotients.
    """
    if name in ("slice", "select", "split", "split_with_sizes") and UNKNOWN.search(str(node.args[1:3])):
        # Nobody has checked it: it may count from the end, or lie beyond it.
        raise Unsupported(node.name, "a position that only the call knows")
    match name:
        case "view" | "_unsafe_view" | "reshape" | "unsqueeze" | "squeeze":
            return reshape_index(index, shape_of(node), base, bounds)
        case "expand":
            return broadcast(index, base)
        case "permute":
            places: list[Poly] = [ZERO] * len(base)
            for position, dim in zip(index, dims_of(node.args[1], len(base)), strict=True):
                places[dim] = position
            return tuple(places)
        case "transpose" | "t":
            swap = list(index)
            if len(base) > 1:
                a, b = (0, 1) if name == "t" else [int(d) % len(base) for d in node.args[1:3] if isinstance(d, int)]
                swap[a], swap[b] = swap[b], swap[a]
            return tuple(swap)
        case "slice":
            return _slice(node, base, index)
        case "select" | "unbind":
            dim = _dim(node, 1, base)
            where = poly(item) if name == "unbind" else from_end(node.args[2], base[dim])
            return (*index[:dim], where, *index[dim:])
        case "split_with_sizes" | "split":
            return _split(node, name, base, index, item)
        case "flip":
            dims = dims_of(node.args[1], len(base))
            return tuple(base[d] - 1 - p if d in dims else p for d, p in enumerate(index))
        case "repeat":
            tail = index[len(index) - len(base) :]
            pairs = zip(tail, base, strict=True)
            return tuple(ZERO if extent == ONE else modulo(position, extent) for position, extent in pairs)
    raise Unsupported(node.name, f"no index function for {name}")


def _dim(node: Node, place: int, base: Index) -> int:
    value = node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)
    assert isinstance(value, int)
    return value % len(base)


_SIZE = re.compile(r"s\d+")


def from_end(arg: Arg, extent: Poly) -> Poly:
    """A position that may count from the end."""
    position = size(arg)
    # Sizes are at least 1, which the number of a step is not. At a size of 1, `1 - n` is 0: capture asked for the sign,
    # which is a condition on the sizes then.
    most = position - 1 if position.names else position
    of_sizes = all(map(_SIZE.fullmatch, position.names))
    negative = of_sizes and bool(most.terms) and all(factor < 0 for _, factor in most.terms)
    return extent + position if negative else position


def _slice(node: Node, base: Index, index: Index) -> Index:
    dim = _dim(node, 1, base) if len(node.args) > 1 else 0
    start = node.args[2] if len(node.args) > 2 else None
    step = node.args[4] if len(node.args) > 4 else 1
    begin = ZERO if start is None else from_end(start, base[dim])
    return (*index[:dim], begin + index[dim] * size(step), *index[dim + 1 :])


def _split(node: Node, name: str, base: Index, index: Index, item: int) -> Index:
    dim = _dim(node, 2, base) if len(node.args) > 2 else 0
    if name == "split":
        begin = size(node.args[1]) * item
    else:
        begin = ZERO
        for part in sizes(node.args[1])[:item]:
            begin = begin + part
    return (*index[:dim], begin + index[dim], *index[dim + 1 :])


def reshape_index(index: Index, shape: Index, base: Index, bounds: Mapping[str, Poly]) -> Index:
    """Index into ``base`` of element ``index`` of a tensor of ``shape`` that holds the same elements in order."""
    out = [(p, s) for p, s in zip(index, shape, strict=True) if s != ONE]
    places = [d for d, s in enumerate(base) if s != ONE]
    result: list[Poly] = [ZERO] * len(base)
    while out and places:
        taken, group = _next_group(out, [base[d] for d in places])
        offset = linear([p for p, _ in out[:taken]], [s for _, s in out[:taken]])
        digits = _digits(offset, [base[d] for d in places[:group]], bounds)
        for dim, digit in zip(places[:group], digits, strict=True):
            result[dim] = digit
        out, places = out[taken:], places[group:]
    return tuple(result)


def _next_group(out: list[tuple[Poly, Poly]], base: list[Poly]) -> tuple[int, int]:
    """How many leading dimensions of both sides span the same elements; all of them if that cannot be seen."""
    left = ONE
    for taken in range(1, len(out) + 1):
        left = left * out[taken - 1][1]
        right = ONE
        for group in range(1, len(base) + 1):
            right = right * base[group - 1]
            if left == right:
                return taken, group
    return len(out), len(base)


def _digits(offset: Poly, extents: list[Poly], bounds: Mapping[str, Poly]) -> list[Poly]:
    digits: list[Poly] = []
    for extent in reversed(extents[1:]):
        offset, digit = divide(offset, extent, bounds)
        digits.append(digit)
    return [offset, *reversed(digits)]
