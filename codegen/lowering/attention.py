"""Attention whose scores are any elementwise function of ``q k^T``, as one node: masks, biases, caps and scales.

Scores stay nodes of the graph that the attention's kernel computes, for one query and key each.
"""

import math
from collections.abc import Collection, Mapping

from msgspec import structs

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Expr, Graph, Node, Ref, SpecialFloat
from ..ir.build import Unsupported, cast, const
from ..ir.loops import AttentionKernel, Buffer
from ..ir.poly import ONE, ZERO, Poly, variable
from ..ir.scalar import Scalar
from .calls import call
from .lower import Lowering
from .pointwise import base_name, is_pointwise
from .recurrences import CARRIED
from .views import RESHAPES, VIEWS, Index, linear, shape_of

ATTENTION = "ks.attention_of_scores"
"""``softmax(scores) v``: of ``q``, ``k``, ``v``, the scores and the product that they are made of."""

_CALL = "aten._scaled_dot_product_flash_attention_for_cpu.default"
_DTYPES = ("float32", "bfloat16", "float16")
_FEWEST = 64
"""Queries and keys that fill a tile."""
_FEW = 4
"""Queries up to which keys are read for each of them."""
_WIDEST = 256
_HEADS = 8
"""Heads from which the library has work for most threads, which it gives a head at a time: one query and 2048 keys of 8
heads take it 335 us and the kernel 435 (two threads), 8192 keys of one head 2115 and 237."""


def fuse_scored_attention(graph: Graph, left: Collection[str] = ()) -> Graph:
    """The graph with attention that is spelled out, or called with a mask, as single nodes, but for those ``left``."""
    nodes = {node.name: node for node in graph.nodes}
    made: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.name not in left:
            is_product = node.target == "aten.bmm.default"
            made |= _of_products(node, nodes) if is_product else _of_call(node, nodes)
    return structs.replace(graph, nodes=tuple(new for node in graph.nodes for new in made.get(node.name, [node])))


def pays(kernel: AttentionKernel, nodes: Mapping[str, Node]) -> bool:
    """Whether the kernel is faster than the library, as far as can be seen.

    It passes over keys that are hidden: scores are minus infinity whatever the queries and keys are; what a bias holds
    is not known. Of few queries it reads keys once that are repeated for several heads, or that several operators would
    read, and shares those of few heads out.
    """
    if any(node.op == "const" and node.data == -math.inf for node in kernel.value.walk()):
        return True
    attention = nodes[kernel.nodes[0]]
    query, key = (nodes[name] for name in refs(attention.args[:2]))
    is_alone = math.prod(query.values[0].example[:-2]) < _HEADS
    return kernel.is_few and (attention.kwargs["is_turned"] is True or is_alone or _is_repeated(key, nodes))


def _is_repeated(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether a value shows elements of a smaller one several times."""
    base = node
    while base.op == "call" and base_name(base.target) in VIEWS | {"clone"}:
        base = nodes[next(refs(base.args))]
    return math.prod(base.values[0].example) < math.prod(node.values[0].example)


def softmaxed(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """What ``node`` is the softmax of over the last dimension, as decompositions leave it."""
    if base_name(node.target) != "div" or not all(isinstance(a, Ref) for a in node.args):
        return None
    exp, total = (nodes[a.name] for a in node.args if isinstance(a, Ref))
    if base_name(exp.target) != "exp" or base_name(total.target) != "sum" or next(refs(total.args)) != exp.name:
        return None
    shifted = nodes[next(refs(exp.args))]
    if base_name(shifted.target) != "sub":
        return None
    scores, top = (nodes[a.name] for a in shifted.args if isinstance(a, Ref))
    rank = len(scores.values[0].shape)
    last = {-1, rank - 1}
    dims = [getattr(n.args[1], "items", (None,)) for n in (top, total)]
    if base_name(top.target) != "amax" or next(refs(top.args)) != scores.name:
        return None
    return scores if all(len(d) == 1 and d[0] in last for d in dims) else None


def _of_call(node: Node, nodes: Mapping[str, Node]) -> dict[str, list[Node]]:
    """What stands for the first result of a call with a mask, by its name."""
    if node.target != "operator.getitem" or not isinstance(node.args[0], Ref) or node.args[1] != 0:
        return {}
    attention = nodes[node.args[0].name]
    if attention.target != _CALL or any(attention.args[3:]):
        return {}
    mask = attention.kwargs.get("attn_mask")
    q, k, v = (nodes[name] for name in refs(attention.args[:3]))
    scale: Arg = attention.kwargs.get("scale")
    if scale is None:
        scale = Expr(value=f"({q.values[0].shape[-1]}) ** -0.5")
    if not _fits(q, k, v, -1) or not (is_few(q) or isinstance(mask, Ref)):
        return {}
    shape = (*q.values[0].shape[:-1], k.values[0].shape[-2])
    example = (*q.values[0].example[:-1], k.values[0].example[-2])
    meta = structs.replace(q.values[0], dtype="float32", shape=shape, example=example, strides=())
    dot, scores = (Ref(name=f"{node.name}_{part}") for part in ("dot", "scaled"))
    made = [
        call(dot.name, CARRIED, (Ref(name=q.name), Ref(name=k.name)), meta),
        call(scores.name, "aten.mul.Tensor", (dot, scale), meta),
    ]
    if mask is not None:
        scaled, scores = scores, Ref(name=f"{node.name}_scores")
        made.append(call(scores.name, "aten.add.Tensor", (scaled, mask), meta))
    attention_node = _attention(node, (q.name, k.name, v.name), scores, dot, is_turned=False, is_safe=True)
    return {node.name: [*made, attention_node]}


def _attention(node: Node, operands: tuple[str, ...], scores: Ref, dot: Ref, is_turned: bool, is_safe: bool) -> Node:
    """``is_turned``: keys are columns; ``is_safe``: a query without keys gets zeros."""
    args: tuple[Arg, ...] = (*(Ref(name=name) for name in operands), scores, dot)
    kwargs: dict[str, Arg] = {"is_turned": is_turned, "is_safe": is_safe}
    return Node(name=node.name, op="call", target=ATTENTION, args=args, kwargs=kwargs, values=node.values[:1])


def _fits(q: Node, k: Node, v: Node, width: int) -> bool:
    """Whether the kernel can take them; ``width`` is the dimension of ``k`` that is summed over."""
    metas = [node.values[0] for node in (q, k, v)]
    rank = len(metas[0].shape)
    if any(m.dtype not in _DTYPES or len(m.shape) != rank or not m.example for m in metas):
        return False
    batch = [m.shape[: rank - 2] for m in metas]
    examples = metas[0].example[-2], metas[2].example[-2], metas[0].example[-1], metas[2].example[-1]
    large = (is_few(q) or examples[0] >= _FEWEST) and examples[1] >= _FEWEST and max(examples[2:]) <= _WIDEST
    same = [m.example[: rank - 2] for m in metas]
    return large and len(batch[0]) > 0 and same[0] == same[1] == same[2] and metas[1].example[width] == examples[2]


def is_few(query: Node) -> bool:
    """Whether queries are so few that their attention reads keys and values where they are, once for each."""
    return query.values[0].example[-2] <= _FEW


def _of_products(node: Node, nodes: Mapping[str, Node]) -> dict[str, list[Node]]:
    """What stands for both products of ``bmm(softmax(f(bmm(q, k))), v)``, by name."""
    left, v = (nodes[name] for name in refs(node.args))
    path = [left]
    while base_name(path[-1].target) in RESHAPES | {"expand", "clone", "_to_copy"} and path[-1].op == "call":
        below = nodes[next(refs(path[-1].args))]
        if math.prod(below.values[0].example) != math.prod(path[-1].values[0].example):
            return {}
        path.append(below)
    shares = _without_checks(path[-1], nodes)
    scores = softmaxed(shares or path[-1], nodes)
    if scores is None or not scores.values[0].example:
        return {}
    chain = _down_to_products(scores, nodes)
    products = [nodes[name] for name in chain if nodes[name].target == "aten.bmm.default"]
    if len(products) != 1:
        return {}
    (dot,) = products
    q, k = (nodes[name] for name in refs(dot.args))
    # A product with the query on its right has a score in each row, and one column.
    seen, given = dot.values[0].example, scores.values[0].example
    same = math.prod(seen) == math.prod(given) and seen[-2:] == given[-2:]
    if not same or not _fits(q, k, v, -2) or not _only_for(dot, node, nodes):
        return {}
    operands, ends = (q.name, k.name, v.name), (Ref(name=scores.name), Ref(name=dot.name))
    attention = _attention(node, operands, *ends, is_turned=True, is_safe=shares is not None)
    return {dot.name: [structs.replace(dot, target=CARRIED)], node.name: [attention]}


def _without_checks(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """The softmax in one that is zero where every score is minus infinity, as PyTorch spells it; else None."""
    steps = ("logical_not", "any", "logical_not", "eq")
    if node.target != "aten.where.self" or not all(isinstance(arg, Ref) for arg in node.args):
        return None
    check, zeros, shares = (nodes[name] for name in refs(node.args))
    for step in steps:
        if base_name(check.target) != step:
            return None
        check, last = nodes[next(refs(check.args))], check
    is_zero = base_name(zeros.target) == "full_like" and zeros.args[1] == 0
    scores = softmaxed(shares, nodes)
    return shares if is_zero and scores is not None and check.name == scores.name and _is_infinite(last) else None


def _is_infinite(node: Node) -> bool:
    return isinstance(node.args[1], SpecialFloat) and node.args[1].value == "-inf"


def _down_to_products(scores: Node, nodes: Mapping[str, Node]) -> set[str]:
    """Everything elementwise that the scores are made of and that a product is below of, the products with it."""
    memo: dict[str, bool] = {}
    stack = [(scores.name, False)]
    while stack:
        name, done = stack.pop()
        node = nodes[name]
        read = list(operands(node))
        passes = node.op == "call" and (is_pointwise(node.target) or base_name(node.target) in VIEWS)
        if done:
            memo[name] = any(memo[other] for other in read)
        elif name not in memo:
            memo[name] = node.target == "aten.bmm.default"
            if passes:
                stack += [(name, True), *((other, False) for other in read)]
    return {name for name, is_above in memo.items() if is_above}


def _only_for(dot: Node, node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether nothing but ``node`` needs what is made of ``dot``."""
    made, needed = {dot.name}, {node.name}
    for other in nodes.values():
        if other.op != "size" and other.name != node.name and made & {*operands(other)}:
            made.add(other.name)
    for name in reversed(list(nodes)):
        if name in needed:
            needed |= {*operands(nodes[name])}
    return made <= needed


def attention_kernel(node: Node, nodes: Mapping[str, Node], name: str, rank: int) -> AttentionKernel:
    """A kernel that computes nothing yet, for the attention ``node``."""
    dims = shape_of(nodes[list(refs(node.args))[3]])
    buffer = Buffer(node.name, node.values[0].dtype, shape_of(node))
    kernel = AttentionKernel(name, rank, "attention", dims, const(0.0, "float32"), buffer)
    query, _, value, *_ = (nodes[name] for name in refs(node.args))
    kernel.width, kernel.out = shape_of(query)[-1], shape_of(value)[-1]
    kernel.nodes = [node.name]
    kernel.is_zero_without_keys = bool(node.kwargs["is_safe"])
    kernel.is_few = is_few(query)
    return kernel


def bounds_of(kernel: AttentionKernel) -> dict[str, Poly]:
    """Exclusive upper bound of every loop variable."""
    return {f"i{d}": size for d, size in enumerate((*kernel.dims, kernel.width))}


def fill(kernel: AttentionKernel, node: Node, outside: Lowering) -> None:
    """Give ``kernel`` its expressions.

    Raises:
        Unsupported: scores are made of other products than their own.
    """
    nodes = outside.nodes
    q, k, v, scores, dot = list(refs(node.args))
    points = tuple(ZERO if size == ONE else point for size, point in zip(kernel.dims, kernel.variables, strict=True))
    *batch, i, j = points
    d = variable(f"i{len(points)}")

    def before(carried: Node, at: Index) -> Scalar:
        if carried.name != dot or linear(at, shape_of(carried)) != linear(points, kernel.dims):
            raise Unsupported(node.name, "scores of other products")
        return Scalar("result", "float32", data=dot)

    def operand(name: str, *place: Poly) -> Scalar:
        rank = len(shape_of(nodes[name]))
        flat = tuple(batch) if rank == len(points) else (linear(tuple(batch), kernel.dims[:-2]),)
        return cast(outside.element(name, (*flat, *place)), "float32")

    inside = Lowering(nodes, outside.stored, before, outside.bounds)
    kernel.query = operand(q, i, d)
    kernel.key = operand(k, d, j) if node.kwargs["is_turned"] else operand(k, j, d)
    kernel.values = operand(v, j, d)
    kernel.value = cast(inside.element(scores, points), "float32")
