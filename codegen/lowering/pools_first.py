"""Moves mean pools before pointwise convolutions: both are linear, and the convolution gets smaller."""

import math
from collections.abc import Collection, Mapping

from msgspec import structs

from ...hardware.machine.work import refs, uses
from ...schemas import Arg, Graph, Items, Node, Ref, TensorMeta
from ..ir.build import is_float
from .calls import call
from .pointwise import base_name
from .windows import numbers

_CONVOLUTION = "aten.convolution.default"
_MEAN = "aten.mean.dim"
_POOLS = ("avg_pool2d", "avg_pool3d")


def pools_first(graph: Graph, kept: Collection[str] = ()) -> Graph:
    """The graph with ``pool(convolution(x))`` as ``convolution(pool(x))``, where that is the same but for rounding.

    DenseNet's transition (norm, activation, convolution, pool of 2 x 2) then stores and multiplies a fourth.

    Args:
        graph: pools and convolutions as PyTorch's operators.
        kept: convolutions that stay as they are.
    """
    nodes = {node.name: node for node in graph.nodes}
    used = uses(node for node in graph.nodes if node.op != "size")
    moved = {
        source.name: node
        for node in graph.nodes
        if (source := _source(node, nodes)) is not None
        and source.name not in kept
        and used[source.name] == 1
        and _is_pointwise(source, nodes)
        and _pays(node, source, nodes)
    }
    if not moved:
        return graph
    pools = {pool.name: nodes[name] for name, pool in moved.items()}
    new_nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in moved or (node.op == "size" and moved.keys() & set(refs(node.args))):
            # Sizes are expressions over the inputs' wherever they are used.
            continue
        new_nodes += _swapped(node, pools[node.name], nodes) if node.name in pools else [node]
    return structs.replace(graph, nodes=tuple(new_nodes))


def _source(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """What a mean over windows that lie beside each other, or over everything but batch and channels, is taken of."""
    if node.op != "call" or not node.args or not isinstance(node.args[0], Ref):
        return None
    source = nodes[node.args[0].name]
    if len(source.values) != 1 or not is_float(source.values[0].dtype):
        return None
    rank = len(source.values[0].shape) - 2
    if rank < 1:
        return None
    if node.target == _MEAN:
        dims = node.args[1]
        listed = dims.items if isinstance(dims, Items) else ()
        places = sorted(d % (rank + 2) for d in listed if isinstance(d, int))
        return source if places == list(range(2, rank + 2)) and not node.kwargs else None
    if base_name(node.target) not in _POOLS or node.kwargs:
        return None
    values = dict(enumerate(node.args))
    size, padding = numbers(values.get(1), rank), numbers(values.get(3, 0), rank)
    given = values.get(2, Items(items=()))
    stride = size if given == Items(items=()) else numbers(given, rank)
    beside = bool(size) and stride == size and padding == (0,) * rank
    return source if beside and not values.get(4) and values.get(6) is None else None


def _is_pointwise(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether it is a convolution whose results are made of one place each."""
    if node.target != _CONVOLUTION or not isinstance(node.args[0], Ref) or not isinstance(node.args[1], Ref):
        return False
    rank = len(node.values[0].shape) - 2
    taps = nodes[node.args[1].name].values[0].shape[2:]
    stride, padding = numbers(node.args[3], rank), numbers(node.args[4], rank)
    return set(taps) == {1} and stride == (1,) * rank and padding == (0,) * rank and not node.args[6]


def _pays(pool: Node, convolution: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether the pooled input is smaller than what the convolution would store."""
    stored, channels = convolution.values[0].example, nodes[next(refs(convolution.args))].values[0].example[1]
    places = math.prod(stored[2:]) // max(1, math.prod(pool.values[0].example[2:]))
    return channels < stored[1] * places


def _swapped(pool: Node, convolution: Node, nodes: Mapping[str, Node]) -> list[Node]:
    """The pool of what the convolution read, and the convolution of that, under the pool's name."""
    source, result = convolution.args[0], pool.values[0]
    assert isinstance(source, Ref)
    whole = nodes[source.name].values[0]
    places = tuple(range(2, len(whole.shape)))
    is_kept = len(result.shape) == len(whole.shape)
    small = result.shape[2:] if is_kept else (1,) * len(places)
    example = result.example[2:] if is_kept else (1,) * len(places)
    pooled = TensorMeta(shape=(*whole.shape[:2], *small), dtype=whole.dtype, example=(*whole.example[:2], *example))
    before = f"{pool.name}_before"
    rest: tuple[Arg, ...] = pool.args[1:] if is_kept else (pool.args[1], True)
    first = structs.replace(pool, name=before, args=(source, *rest), values=(pooled,))
    args = (Ref(name=before), *convolution.args[1:])
    if is_kept:
        return [first, structs.replace(convolution, name=pool.name, args=args, values=(result,))]
    meta = TensorMeta(shape=(*result.shape, *small), dtype=result.dtype, example=(*result.example, *example))
    made = structs.replace(convolution, name=f"{pool.name}_kept", args=args, values=(meta,))
    dims = Items(items=places)
    return [first, made, call(pool.name, "aten.squeeze.dims", (Ref(name=made.name), dims), result)]
