"""Attention as one node of the graph, spelled out or called, and its Triton kernel (Dao 2023, arXiv:2307.08691)."""

import math
import re
from dataclasses import dataclass

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Expr, Graph, Node, Ref
from ..ir.build import number
from ..ir.printing import python_poly
from ..lowering.attention import softmaxed
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.views import VIEWS, shape_of
from .launch import Launch, TritonKernel, evaluate
from .layout import Layout, layout_of
from .prepare import Sizes
from .scope import pname
from .tunables import GpuSettings

ATTENTION = "ks.attention"
"""``softmax(q k^T * scale) v``; ``k`` is given as it enters the product, its last dimension the keys."""

_CALLS = {
    "_scaled_dot_product_flash_attention_for_cpu": (4, -1),
    "_scaled_dot_product_flash_attention": (4, -1),
    "_scaled_dot_product_cudnn_attention": (6, 3),
    "_scaled_dot_product_efficient_attention": (6, 3),
}
"""Operators, with the places of ``is_causal`` and of a bias."""
_DTYPES = ("float32", "bfloat16", "float16")


def fuse_attention(graph: Graph) -> Graph:
    """The graph with attention as single nodes; ``transposed`` says that keys come as columns."""
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    for node in graph.nodes:
        replacement = _called(node, nodes) or _spelled(node, nodes, graph)
        new_nodes.append(replacement or node)
    return Graph(nodes=tuple(_live(new_nodes)), symbols=graph.symbols, guards=graph.guards)


def _live(nodes: list[Node]) -> list[Node]:
    needed: set[str] = set()
    kept: list[Node] = []
    for node in reversed(nodes):
        # What makes a number of a tensor is needed by name only.
        if node.op != "call" or node.expr or node.name in needed:
            needed |= set(operands(node))
            kept.append(node)
    return kept[::-1]


def _attention(name: str, q: str, k: str, v: str, scale: float, causal: bool, transposed: bool, like: Node) -> Node:
    kwargs: dict[str, Arg] = {"scale": scale, "causal": causal, "transposed": transposed}
    args = (Ref(name=q), Ref(name=k), Ref(name=v))
    return Node(name=name, op="call", target=ATTENTION, args=args, kwargs=kwargs, values=like.values[:1])


def _called(node: Node, nodes: dict[str, Node]) -> Node | None:
    if node.target != "operator.getitem" or not isinstance(node.args[0], Ref) or node.args[1] != 0:
        return None
    call = nodes[node.args[0].name]
    places = _CALLS.get(base_name(call.target))
    if places is None or len(call.args) < 3 or call.kwargs.get("attn_mask") is not None:
        return None
    causal_at, bias_at = places
    if 0 <= bias_at < len(call.args) and call.args[bias_at] is not None:
        return None
    dropout = call.args[5 if bias_at >= 0 else 3] if len(call.args) > (5 if bias_at >= 0 else 3) else 0.0
    causal = bool(call.args[causal_at]) if len(call.args) > causal_at else bool(call.kwargs.get("is_causal", False))
    q, k, v = (a.name if isinstance(a, Ref) else "" for a in call.args[:3])
    if dropout or not _fits([nodes[n] for n in (q, k, v)], 4, -1):
        return None
    width = nodes[q].values[0].shape[-1]
    scale = call.kwargs.get("scale")
    if scale is None:
        example = nodes[q].values[0].example[-1]
        if not isinstance(width, int) and not example:
            return None
        scale = 1.0 / math.sqrt(example)
    value = number(scale)
    return None if value is None else _attention(node.name, q, k, v, float(value), causal, False, node)


def _fits(operands: list[Node], rank: int, width: int) -> bool:
    """Whether the kernel can take them."""
    q, k, v = (n.values[0] for n in operands)
    if any(m.dtype not in _DTYPES or len(m.shape) != rank or not m.example for m in (q, k, v)):
        return False
    if any(m.example[: rank - 2] != q.example[: rank - 2] for m in (k, v)):
        return False
    return q.example[-1] <= 256 and v.example[-1] <= 256 and q.example[-1] == k.example[width]


def _strip(name: str, nodes: dict[str, Node], *more: str) -> Node:
    """The node below views that keep the order of elements, and below the operators ``more``."""
    node = nodes[name]
    while node.op == "call" and base_name(node.target) in {"view", "expand", "_unsafe_view", "reshape", "clone", *more}:
        below = nodes[next(refs(node.args))]
        if base_name(node.target) in VIEWS and _size(below) != _size(node):
            break
        node = below
    return node


def _size(node: Node) -> int:
    return math.prod(node.values[0].example)


def _factor(arg: object, graph: Graph) -> float | None:
    """A number that scores are scaled with; one that follows from the width of a head is taken at the main shape."""
    if isinstance(arg, Ref):
        return None
    if not isinstance(arg, Expr):
        value = number(arg)  # type: ignore[arg-type]
        return None if value is None else float(value)
    symbols = {name: source.example for name, source in graph.symbols.items()}
    try:
        return float(evaluate(arg.value, symbols))
    except (NameError, AttributeError, ValueError, ZeroDivisionError):
        return None


def _spelled(node: Node, nodes: dict[str, Node], graph: Graph) -> Node | None:
    """``bmm(softmax(bmm(q, k) * scale), v)`` as decompositions leave it."""
    if node.target != "aten.bmm.default" or not all(isinstance(a, Ref) for a in node.args):
        return None
    left, v = (a.name for a in node.args if isinstance(a, Ref))
    divided = _strip(left, nodes, "_to_copy")
    scores = softmaxed(divided, nodes)
    scale = 1.0
    named: set[str] = set()
    while scores is not None and base_name(scores.target) in ("mul", "div", "_to_copy", "view", "expand"):
        if base_name(scores.target) in ("mul", "div"):
            factor = _factor(scores.args[1], graph)
            named |= _symbols_of(scores.args[1])
            if factor is None or not isinstance(scores.args[0], Ref):
                return None
            scale = scale * factor if base_name(scores.target) == "mul" else scale / factor
        scores = nodes[next(refs(scores.args))]
    if scores is None or scores.target != "aten.bmm.default":
        return None
    q, k = (a.name for a in scores.args if isinstance(a, Ref))
    if not _fits([nodes[n] for n in (q, k, v)], 3, -2) or not named <= _symbols_of_width(nodes[q]):
        return None
    return _attention(node.name, q, k, v, scale, False, True, node)


def _symbols_of(arg: object) -> set[str]:
    return set(re.findall(r"[su]\d+", arg.value)) if isinstance(arg, Expr) else set()


def _symbols_of_width(node: Node) -> set[str]:
    return set(shape_of(node)[-1].names)


@dataclass(frozen=True)
class _Cut:
    m: int
    n: int
    width: int
    out: int
    warps: int
    stages: int


def _cut(node: Node, nodes: dict[str, Node], settings: GpuSettings) -> _Cut:
    width = nodes[_names(node)[0]].values[0].example[-1]
    out = nodes[_names(node)[2]].values[0].example[-1]
    wide = max(16, 1 << (max(width, out) - 1).bit_length())
    full = node.values[0].dtype == "float32"
    m = settings.tile_m or (64 if full or wide > 128 else 128)
    n = settings.tile_n or (32 if full or wide > 128 else 64 if wide == 128 else 128)
    warps = settings.warps or (8 if m >= 128 and wide >= 128 else 4)
    return _Cut(
        m, n, max(16, 1 << (width - 1).bit_length()), max(16, 1 << (out - 1).bit_length()), warps, settings.stages or 3
    )


def _names(node: Node) -> tuple[str, str, str]:
    q, k, v = (a.name for a in node.args if isinstance(a, Ref))
    return q, k, v


def attention_kernel(
    node: Node, plan: Plan, sizes: Sizes, settings: GpuSettings, conditions: list[str]
) -> TritonKernel:
    """The kernel of one attention node: a tile of queries for every program, keys in blocks."""
    nodes = plan.nodes
    q, k, v = _names(node)
    cut = _cut(node, nodes, settings)
    q_shape, v_shape = shape_of(nodes[q]), shape_of(nodes[v])
    rank = len(q_shape)
    batch = python_poly(q_shape[0])
    heads = python_poly(q_shape[1]) if rank == 4 else "1"
    dtype = node.values[0].dtype
    name = pname(f"attention_{node.name}")
    keys = "k" if node.kwargs["transposed"] else "rows"
    numbers = [("HEADS", heads), ("QUERIES", python_poly(q_shape[-2])), ("KEYS", python_poly(v_shape[-2]))]
    numbers += [("WIDTH", python_poly(q_shape[-1])), ("OUT", python_poly(v_shape[-1]))]
    conditions += [f"{numbers[3][1]} == {sizes.of(q_shape[-1])}", f"{numbers[4][1]} <= {cut.out}"]
    conditions.append(f"({batch}) * ({heads}) <= 65535")
    layouts = {f"{letter}_ptr": layout_of(name, plan) for letter, name in (("q", q), ("k", k), ("v", v))}
    strides = _strides(layouts, rank, keys)
    precision = f', input_precision="{settings.precision}"' if dtype == "float32" else ""
    scale = float(node.kwargs["scale"]) * math.log2(math.e)  # type: ignore[arg-type]
    body = _BODY.format(
        name=name,
        strides=", ".join(parameter for parameter, _ in strides),
        m=cut.m,
        n=cut.n,
        width=cut.width,
        out=cut.out,
        scale=scale,
        causal=bool(node.kwargs["causal"]),
        precision=precision,
    )
    tensors = (("q_ptr", q, dtype), ("k_ptr", k, dtype), ("v_ptr", v, dtype), ("out_ptr", node.name, dtype))
    grid = (f"_cdiv({numbers[1][1]}, {cut.m})", f"({batch}) * ({heads})")
    launch = Launch(
        name,
        grid,
        tensors,
        (*numbers, *strides),
        {"num_warps": cut.warps, "num_stages": cut.stages},
        layouts,
    )
    return TritonKernel(body, launch, (node.name,))


def _strides(layouts: dict[str, Layout], rank: int, keys: str) -> list[tuple[str, str]]:
    """Strides of the operands in memory, by parameter; ``keys`` says what the last dimension of the keys is."""
    strides: list[tuple[str, str]] = []
    for parameter, layout in layouts.items():
        letter = parameter[0]
        places = [("b", 0), ("h", 1 if rank == 4 else None), ("n", rank - 2), ("d", rank - 1)]
        if letter == "k" and keys == "k":
            places = [("b", 0), ("h", None), ("n", rank - 1), ("d", rank - 2)]
        strides += [(f"{letter}_{part}", "0" if d is None else python_poly(layout.strides[d])) for part, d in places]
    return strides


_BODY = """@triton.jit
def {name}_block(
    q, k_ptr, v_ptr, acc, total, top, low, high, rm, k_n, k_d, v_n, v_d,
    KEYS: tl.constexpr, WIDTH: tl.constexpr, OUT: tl.constexpr, MASKED: tl.constexpr,
):
    rd = tl.arange(0, {width})
    ro = tl.arange(0, {out})
    for start in range(low, high, {n}):
        rn = start + tl.arange(0, {n})
        if MASKED:
            k_mask = (rn < KEYS)[None, :] & (rd < WIDTH)[:, None]
            v_mask = (rn < KEYS)[:, None] & (ro < OUT)[None, :]
            k = tl.load(k_ptr + rn[None, :] * k_n + rd[:, None] * k_d, mask=k_mask, other=0.0)
            v = tl.load(v_ptr + rn[:, None] * v_n + ro[None, :] * v_d, mask=v_mask, other=0.0)
        elif WIDTH == {width} and OUT == {out}:
            k = tl.load(k_ptr + rn[None, :] * k_n + rd[:, None] * k_d)
            v = tl.load(v_ptr + rn[:, None] * v_n + ro[None, :] * v_d)
        else:
            k = tl.load(k_ptr + rn[None, :] * k_n + rd[:, None] * k_d, mask=(rd < WIDTH)[:, None], other=0.0)
            v = tl.load(v_ptr + rn[:, None] * v_n + ro[None, :] * v_d, mask=(ro < OUT)[None, :], other=0.0)
        scores = tl.dot(q, k{precision}) * {scale!r}
        if MASKED:
            seen = (rn < KEYS)[None, :]
            if {causal}:
                seen = seen & (rm[:, None] >= rn[None, :])
            scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(weights.to(v.dtype), v, acc{precision})
        top = higher
    return acc, total, top


@triton.jit
def {name}(
    q_ptr, k_ptr, v_ptr, out_ptr, HEADS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    WIDTH: tl.constexpr, OUT: tl.constexpr, {strides},
):
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    # The longest rows of a causal mask first: the last programs are short.
    tile = tl.num_programs(0) - 1 - tl.program_id(0) if {causal} else tl.program_id(0)
    rm = tile * {m} + tl.arange(0, {m})
    rd = tl.arange(0, {width})
    ro = tl.arange(0, {out})
    rows = (rm < QUERIES)[:, None]
    q = tl.load(
        q_ptr + batch * q_b + head * q_h + rm[:, None] * q_n + rd[None, :] * q_d,
        mask=rows & (rd < WIDTH)[None, :], other=0.0,
    )
    k_ptr += batch * k_b + head * k_h
    v_ptr += batch * v_b + head * v_h
    acc = tl.zeros([{m}, {out}], tl.float32)
    total = tl.zeros([{m}], tl.float32)
    top = tl.full([{m}], float("-inf"), tl.float32)
    high = tl.minimum(KEYS, (tile + 1) * {m}) if {causal} else KEYS
    whole = tl.minimum(KEYS, tile * {m}) // {n} * {n} if {causal} else KEYS // {n} * {n}
    acc, total, top = {name}_block(
        q, k_ptr, v_ptr, acc, total, top, 0, whole, rm, k_n, k_d, v_n, v_d, KEYS, WIDTH, OUT, False
    )
    if {causal} or KEYS % {n} != 0:
        acc, total, top = {name}_block(
            q, k_ptr, v_ptr, acc, total, top, whole, high, rm, k_n, k_d, v_n, v_d, KEYS, WIDTH, OUT, True
        )
    place = tl.program_id(1).to(tl.int64) * QUERIES * OUT
    out = acc / total[:, None]
    tl.store(out_ptr + place + rm[:, None] * OUT + ro[None, :], out, mask=rows & (ro < OUT)[None, :])"""
