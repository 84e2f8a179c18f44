"""Sums by an index: of messages by graph node, of rows by segment, of gradients by looked-up row."""

from collections.abc import Mapping

from ...schemas import Node
from ..ir.build import cast, compute_dtype
from ..ir.loops import Buffer, ScatterKernel
from ..ir.poly import Poly
from ..ir.scalar import Scalar
from .lower import Lowering
from .normal import ADDED
from .views import Index, shape_of

_TARGETS = ("aten.index_add.default", "aten.scatter_add.default")


def is_sum_by_index(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether the node adds to one dimension what an index says, for every point of the others alike."""
    if node.target not in _TARGETS or node.kwargs.get("alpha", 1) != 1 or not isinstance(node.args[1], int):
        return False
    base, index, source = _operands(node, nodes)
    shape, places, added = shape_of(base), shape_of(index), shape_of(source)
    if not shape or len(added) != len(shape) or node.values[0].dtype not in ADDED:
        return False
    axis = node.args[1] % len(shape)
    fits = added[:axis] + added[axis + 1 :] == shape[:axis] + shape[axis + 1 :]
    expected = (added[axis],) if node.target == _TARGETS[0] else added
    return fits and places == expected and base.values[0].dtype == source.values[0].dtype


def scatter_kernel(node: Node, nodes: Mapping[str, Node], name: str, rank: int) -> ScatterKernel:
    """A kernel that computes nothing yet, for such a node."""
    _, _, source = _operands(node, nodes)
    dtype = node.values[0].dtype
    buffer = Buffer(node.name, dtype, shape_of(node))
    kernel = ScatterKernel(name, rank, "scatter", shape_of(source), Scalar("const", dtype, data=0), buffer)
    kernel.axis = int(node.args[1]) % len(kernel.dims)  # type: ignore[arg-type]
    kernel.nodes = [node.name]
    return kernel


def fill(kernel: ScatterKernel, node: Node, over_source: Lowering, over_result: Lowering) -> None:
    """Give ``kernel`` its expressions; the loop variables are bounded by the source's shape, or by the result's."""
    nodes = over_source.nodes
    base, index, source = _operands(node, nodes)
    dtype = compute_dtype(node.values[0].dtype)
    at = kernel.variables
    places: Index = at if node.target == _TARGETS[1] else (at[kernel.axis],)
    kernel.index = cast(over_source.element(index.name, places), "int64")
    kernel.value = cast(over_source.element(source.name, at), dtype)
    kernel.base = cast(over_result.element(base.name, at), dtype)


def bounds_of(shape: Index) -> dict[str, Poly]:
    """Exclusive upper bounds of loop variables over ``shape``."""
    return {f"i{d}": size for d, size in enumerate(shape)}


def _operands(node: Node, nodes: Mapping[str, Node]) -> tuple[Node, Node, Node]:
    base, _, index, source = node.args
    return nodes[base.name], nodes[index.name], nodes[source.name]  # type: ignore[union-attr]
