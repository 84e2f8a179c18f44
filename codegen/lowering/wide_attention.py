"""Rewrites attention whose heads are too wide for one kernel as two products with a softmax between them."""

import math

from ...hardware.machine.work import refs
from ...schemas import Arg, Graph, Items, Node, Ref, TensorMeta
from ..ir.poly import ONE, Poly, product
from .calls import call, dims_argument, viewed
from .views import dim_of, shape_of

_CALL = "aten._scaled_dot_product_flash_attention_for_cpu.default"
_WIDEST = 256
"""Elements of a head that the attention kernel holds at most."""


def spell_wide_attention(graph: Graph) -> Graph:
    """The graph with attention over wide heads as ``softmax(q k^T * scale) v``."""
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    guards = dict.fromkeys(graph.guards)
    for node in graph.nodes:
        replacement = _spelled(node, nodes)
        new_nodes += replacement or [node]
        if replacement:
            # The scale is that of the width at the main shape.
            query = nodes[next(refs(nodes[next(refs(node.args))].args))].values[0]
            guards[f"{query.shape[-1]} == {query.example[-1]}"] = None
    return Graph(nodes=tuple(new_nodes), symbols=graph.symbols, guards=tuple(guards))


def _spelled(node: Node, nodes: dict[str, Node]) -> list[Node]:
    if node.target != "operator.getitem" or not isinstance(node.args[0], Ref) or node.args[1] != 0:
        return []
    attention = nodes[node.args[0].name]
    operands = [nodes[a.name] for a in attention.args[:3] if isinstance(a, Ref)]
    if attention.target != _CALL or any(attention.args[3:]) or attention.kwargs.get("attn_mask") is not None:
        return []
    if any(value for key, value in attention.kwargs.items() if key not in ("scale", "attn_mask")):
        return []
    if any(len(n.values[0].shape) != 4 or not n.values[0].example for n in operands):
        return []
    width = operands[0].values[0].example[-1]
    scale = attention.kwargs.get("scale") or 1.0 / math.sqrt(width)
    heads = operands[0].values[0].example[1]
    if width <= _WIDEST or not isinstance(scale, float) or any(n.values[0].example[1] != heads for n in operands):
        return []
    return _written(node, operands, scale)


def _written(node: Node, operands: list[Node], scale: float) -> list[Node]:
    nodes: list[Node] = []
    dtype = node.values[0].dtype

    def add(part: str, target: str, args: tuple[Arg, ...], sizes: tuple[Poly, ...], example: tuple[int, ...]) -> Ref:
        shape = tuple(map(dim_of, sizes))
        name = f"{node.name}_{part}"
        nodes.append(call(name, f"aten.{target}", args, TensorMeta(shape=shape, dtype=dtype, example=example)))
        return Ref(name=name)

    flat: list[Ref] = []
    for letter, operand in zip("qkv", operands, strict=True):
        batch, heads, *rest = shape_of(operand)
        example = operand.values[0].example
        sizes = (batch * heads, *rest)
        text = dims_argument(map(dim_of, sizes))
        shape = (example[0] * example[1], *example[2:])
        flat.append(add(letter, "reshape.default", (Ref(name=operand.name), text), sizes, shape))
    q, k, v = flat
    batch, queries, width = (product(shape_of(operands[0])[:2]), *shape_of(operands[0])[2:])
    keys = shape_of(operands[1])[2]
    b, s, d = nodes[0].values[0].example
    t = nodes[1].values[0].example[1]
    full, fulls, column, columns = (batch, queries, keys), (b, s, t), (batch, queries, ONE), (b, s, 1)
    last = Items(items=(-1,))
    turned = add("turned", "permute.default", (k, Items(items=(0, 2, 1))), (batch, width, keys), (b, d, t))
    scores = add("scores", "bmm.default", (q, turned), full, fulls)
    scaled = add("scaled", "mul.Tensor", (scores, scale), full, fulls)
    top = add("top", "amax.default", (scaled, last, True), column, columns)
    below = add("below", "sub.Tensor", (scaled, top), full, fulls)
    powers = add("powers", "exp.default", (below,), full, fulls)
    total = add("total", "sum.dim_IntList", (powers, last, True), column, columns)
    shares = add("shares", "div.Tensor", (powers, total), full, fulls)
    wide = shape_of(operands[2])[3]
    result = add("rows", "bmm.default", (shares, v), (batch, queries, wide), (b, s, nodes[2].values[0].example[2]))
    return [*nodes, viewed(node.name, result.name, node.values[0])]
