"""Running sums and products, compactions and the offsets of segments as kernels: one serial pass along a dimension."""

from collections.abc import Mapping

from ...hardware.machine.work import refs
from ...schemas import Items, Node
from ..ir.build import cast, compute_dtype
from ..ir.loops import Buffer, SpecialKernel
from ..ir.poly import variable
from ..ir.scalar import Scalar
from .lower import Lowering
from .normal import RUNNING_PRODUCT, RUNNING_SUM, SEGMENT_OFFSETS
from .views import shape_of

_KINDS = {SEGMENT_OFFSETS: "offsets", RUNNING_SUM: "scan", RUNNING_PRODUCT: "product"}


def special_kernel(node: Node, nodes: Mapping[str, Node], name: str, rank: int) -> SpecialKernel:
    """The kernel of ``node`` over its first argument's elements, still without what it computes of them."""
    kind, shape, dtype = _KINDS.get(node.target, "compact"), shape_of(_source(node, nodes)), node.values[0].dtype
    kernel = SpecialKernel(
        name, rank, kind, shape, Scalar("const", dtype, data=0), Buffer(node.name, dtype, shape_of(node))
    )
    kernel.along = int(node.args[1]) % len(shape) if kind in ("scan", "product") else -1  # type: ignore[arg-type]
    return kernel


def fill(kernel: SpecialKernel, node: Node, nodes: Mapping[str, Node], lowering: Lowering) -> None:
    """Give the kernel its value at an element, and a compaction its mask."""
    places = tuple(variable(f"i{d}") for d in range(len(kernel.dims)))
    kernel.value = cast(lowering.element(_source(node, nodes).name, places), compute_dtype(kernel.buffer.dtype))
    if kernel.kind == "compact":
        assert isinstance(node.args[1], Items)
        mask = nodes[next(refs(node.args[1].items))]
        kernel.trailing = len(places) - len(mask.values[0].shape)
        kernel.mask = lowering.element(mask.name, places[: len(mask.values[0].shape)])
    kernel.nodes.append(node.name)


def _source(node: Node, nodes: Mapping[str, Node]) -> Node:
    return nodes[next(refs(node.args))]
