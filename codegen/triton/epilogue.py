"""Operators after a contraction (product or convolution), computed on its sums while they are in registers."""

from collections.abc import Callable, Iterable

from ...schemas import Node
from ..ir.loops import Buffer, Kernel, Store
from ..ir.poly import Poly, variable
from ..ir.scalar import Scalar, walk_all
from ..lowering.plan import Plan
from ..lowering.views import linear, shape_of
from .prepare import Tile
from .scope import pname

SUMS = "sums"
"""Name of the accumulator, as an expression refers to it."""


def epilogue(node: Node, plan: Plan) -> Kernel | None:
    """The kernel that alone reads the operator's result, and no element of it but the one that it writes."""
    readers = plan.readers(node.name)
    if len(readers) != 1 or not isinstance(readers[0], Kernel) or not plan.is_only_user(readers[0], node.name):
        return None
    kernel = readers[0]
    offsets = {n.polys[0] for n in walk_all(kernel.roots()) if n.op == "load" and n.data[0] == node.name}
    return kernel if offsets == {linear(kernel.variables, kernel.dims)} else None


def replacing(node: Node, value: Callable[[Poly], Scalar]) -> Callable[[Scalar], Scalar | None]:
    """A change of expressions: ``value`` of the offset instead of the operator's result in memory."""

    def change(scalar: Scalar) -> Scalar | None:
        return value(scalar.polys[0]) if scalar.op == "load" and scalar.data[0] == node.name else None

    return change


def stored(node: Node, dims: tuple[Poly, ...], value: Callable[[Poly], Scalar], buffer: Buffer | None = None) -> Store:
    """Writes ``value`` of the offset as the operator's result of ``dims``, or into ``buffer``."""
    offset = linear([variable(f"i{d}") for d in range(len(dims))], dims)
    whole = Buffer(node.name, node.values[0].dtype, shape_of(node))
    return Store(buffer or whole, offset, value(offset), "element")


def finishing(
    node: Node,
    user: Kernel | None,
    dims: tuple[Poly, ...],
    columns: Iterable[int],
    name: str,
    buffer: Buffer | None = None,
) -> Tile:
    """``user`` on the sums instead of the operator's result in memory; without it, a kernel that stores them.

    Args:
        node: the operator.
        user: what follows it.
        dims: of the result, where nothing follows.
        columns: dimensions that a tile's columns run over; the others are its rows.
        name: of a kernel without a user.
        buffer: stored into instead of the result.
    """
    sums = Scalar("result", "float32", data=SUMS)
    if user is None:
        store = stored(node, dims, lambda _: sums, buffer)
        return Tile(pname(name), 0, dims, frozenset(columns), {}, {store.buffer.name: store})
    changed = user.rewritten(replacing(node, lambda _: sums))
    return Tile(user.name, user.rank, user.dims, frozenset(columns), changed.accumulations, changed.stores, user.nodes)
