"""Gives results the strides of the reference's results, which the next layer of a network may rely on."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import Graph, Node, Ref
from ..ir.poly import ONE, Poly, poly
from .calls import call, in_order, permuted
from .pointwise import base_name, is_pointwise
from .reductions import is_reduction
from .renaming import renamed
from .views import VIEWS, shape_of

S = TypeVar("S", int, Poly)
_STORED, _RESULT = "_stored", "_result"


def with_strides(graph: Graph) -> Graph:
    """The graph whose computed results have the captured strides where these are another order of dimensions.

    Such a value is a view of a copy that has its dimensions in the order of memory. The copy alone is stored, so that
    it costs nothing where the value has no other reader.
    """
    nodes = {node.name: node for node in graph.nodes}
    output = graph.nodes[-1]
    chains = [_chain(nodes, name) for name in refs(output.args)]
    examples = {name: source.example for name, source in graph.symbols.items()}
    orders = {chain[-1]: order for chain in chains if (order := _order(nodes[chain[-1]], examples)) is not None}
    if not orders:
        return graph
    readers = {output.name} | {name for chain in chains if chain[-1] in orders for name in chain[:-1]}
    names = {name: f"{name}{_RESULT}" for name in orders}
    new_nodes: list[Node] = []
    for node in graph.nodes:
        new_nodes.append(structs.replace(renamed(node, names), kwargs=node.kwargs) if node.name in readers else node)
        if node.name in orders:
            new_nodes += _stored(node, orders[node.name])
    return structs.replace(graph, nodes=tuple(new_nodes))


def results_stored(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """By stored copy, the result that :func:`with_strides` made a view of it."""
    views = [node for node in nodes.values() if base_name(node.target) == "permute" and node.name.endswith(_RESULT)]
    sources = {next(refs(node.args)): node for node in views}
    return {name: node for name, node in sources.items() if name == f"{node.name.removesuffix(_RESULT)}{_STORED}"}


def _chain(nodes: dict[str, Node], name: str) -> list[str]:
    """A result, and what it is a view of, to the value that is in memory."""
    chain = [name]
    while base_name(nodes[chain[-1]].target) in VIEWS - {"repeat"}:
        chain.append(next(refs(nodes[chain[-1]].args)))
    return chain


def _order(node: Node, examples: Mapping[str, int]) -> tuple[int, ...] | None:
    """Dimensions in the order in which the reference's value lies in memory, without gaps; None where it is the usual.

    Of what PyTorch computes, and of kernels that know one order only, nothing is said.
    """
    if node.op != "call" or len(node.values) != 1 or not (is_pointwise(node.target) or is_reduction(node)):
        return None
    shape, meta = shape_of(node), node.values[0]
    dims = [dim for dim, size in enumerate(shape) if size != ONE] if meta.strides else []
    strides = [poly(stride) for stride in meta.strides]
    order = _in_memory(dims, strides, shape, ONE)
    if (
        order is None
        and min(meta.example, default=0) > 1
        and all(stride.names <= examples.keys() for stride in strides)
    ):
        # Rounded sizes have several spellings; the order is that of the example.
        numbers = [int(eval(str(stride), {"max": max, "min": min, **examples})) for stride in meta.strides]
        order = _in_memory(dims, numbers, meta.example, 1)
    if order is None or order == sorted(order):
        return None
    return (*(set(range(len(shape))) - set(order)), *order)


def _in_memory(dims: Sequence[int], strides: Sequence[S], shape: Sequence[S], one: S) -> list[int] | None:
    """``dims`` from the outermost to the innermost, if nothing lies between their elements."""
    left, order, stride = list(dims), list[int](), one
    while left:
        along = next((dim for dim in left if strides[dim] == stride), None)
        if along is None:
            return None
        left.remove(along)
        order.insert(0, along)
        stride = stride * shape[along]
    return order


def _stored(node: Node, order: tuple[int, ...]) -> list[Node]:
    """The value's copy in the order of memory, and the value as a view of it, which is the last node."""
    meta, back = node.values[0], tuple(map(order.index, range(len(order))))
    turned = in_order(meta, order)
    view, copy = f"{node.name}_by_memory", f"{node.name}{_STORED}"
    return [
        permuted(view, node.name, order, turned),
        call(copy, "aten.clone.default", (Ref(name=view),), turned),
        permuted(f"{node.name}{_RESULT}", copy, back, meta),
    ]
