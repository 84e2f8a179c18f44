"""Rewrites of a graph that pay on a GPU: a product with a vector is a reduction, a chain takes its best order."""

from msgspec import structs

from ....hardware.work import refs
from ....schemas import Graph, Items, Node, Ref, TensorMeta
from .build import compute_dtype
from .depthwise import spell_depthwise
from .pointwise import base_name
from .pooling import spell_pools
from .triton_attention import fuse_attention
from .triton_convolution import fuse_convolutions

_GAIN = 2
"""How many times fewer bytes another order must move."""


def on_gpu(graph: Graph, reassociate: bool, templates: bool = True) -> Graph:
    """The same operator in a form that suits a GPU."""
    if templates:
        graph = fuse_convolutions(fuse_attention(spell_windows(graph)))
    nodes = list(graph.nodes)
    if reassociate:
        nodes = _reassociated(nodes)
    nodes = [part for node in nodes for part in _vector_product(node, {n.name: n for n in nodes})]
    return Graph(nodes=tuple(nodes), symbols=graph.symbols, guards=graph.guards)


def spell_windows(graph: Graph) -> Graph:
    """Pooling and depthwise convolutions as elementwise operators on slices."""
    return spell_depthwise(spell_pools(graph))


def _users(nodes: list[Node]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in nodes:
        for name in refs((*node.args, *node.kwargs.values())):
            found[name] = found.get(name, 0) + 1
    return found


def _reassociated(nodes: list[Node]) -> list[Node]:
    """``A (B C)`` as ``(A B) C`` where the product in between is much smaller."""
    by_name = {node.name: node for node in nodes}
    users = _users(nodes)
    changed: dict[str, Node] = {}
    dropped: dict[str, Node] = {}
    for node in nodes:
        if base_name(node.target) not in ("bmm", "mm") or not all(isinstance(a, Ref) for a in node.args):
            continue
        a, inner = (by_name[arg.name] for arg in node.args if isinstance(arg, Ref))
        if inner.target != node.target or users[inner.name] != 1:
            continue
        b, c = (by_name[arg.name] for arg in inner.args if isinstance(arg, Ref))
        shape, example = (*a.values[0].shape[:-1], b.values[0].shape[-1]), (*_example(a)[:-1], _example(b)[-1])
        before, after = _count(_example(inner)), _count(example)
        if after * _GAIN > before:
            continue
        meta = TensorMeta(shape=shape, dtype=node.values[0].dtype, example=example)
        dropped[inner.name] = structs.replace(inner, args=(Ref(name=a.name), Ref(name=b.name)), values=(meta,))
        changed[node.name] = structs.replace(node, args=(Ref(name=inner.name), Ref(name=c.name)))
    found: list[Node] = []
    for node in nodes:
        if node.name in dropped:
            continue
        if node.name in changed:
            first = changed[node.name].args[0]
            assert isinstance(first, Ref)
            found.append(dropped[first.name])
        found.append(changed.get(node.name, node))
    return found


def _example(node: Node) -> tuple[int, ...]:
    return node.values[0].example


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _vector_product(node: Node, nodes: dict[str, Node]) -> list[Node]:
    """``matrix @ vector`` as products added up along the row: it reads the matrix once and that is all."""
    if node.target != "aten.mv.default" or not all(isinstance(a, Ref) for a in node.args):
        return [node]
    matrix, vector = (nodes[a.name] for a in node.args if isinstance(a, Ref))
    source = matrix.values[0]
    wide = compute_dtype(source.dtype)
    full = TensorMeta(shape=source.shape, dtype=wide, example=source.example)
    terms = f"{node.name}_terms"
    args = (Ref(name=matrix.name), Ref(name=vector.name))
    return [
        Node(name=terms, op="call", target="aten.mul.Tensor", args=args, values=(full,)),
        Node(
            name=node.name,
            op="call",
            target="aten.sum.dim_IntList",
            args=(Ref(name=terms), Items(items=(1,)), False),
            values=node.values,
        ),
    ]
