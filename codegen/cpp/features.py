"""Which operations a plan's C++ kernels contain: a tunable that changes nothing is left out of the search."""

import math

from ...schemas import Graph, Node, TensorMeta
from ..ir.build import is_float
from ..ir.loops import Kernel, SpecialKernel
from ..ir.scalar import walk_all
from ..ir.tunables import Features
from ..lowering.attention import fuse_scored_attention
from ..lowering.channels_last import has_channels_last
from ..lowering.in_place import overwritten
from ..lowering.normal import VARIANCES
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.row_buffer import shared_values
from .math import ERROR_ULP, resolve
from .windows import spell_windows

_COSTLY = (
    "exp exp2 expm1 log log2 log10 log1p tanh erf erfc sin cos tan pow sigmoid asin acos atan sinh cosh asinh acosh "
    "atanh atan2 cbrt"
)
_TRANSCENDENTAL = set(_COSTLY.split())
_MODERATE = {name for name, level in ERROR_ULP if level == "short"}
_LAST_PLACE = 2.0**-23
_LARGE = 4 << 20


def features_of(graph: Graph, plan: Plan) -> Features:
    """Read the features off a plan made with the default settings."""
    loops = [k for k in plan.kernels if isinstance(k, Kernel)]
    special = [k for k in plan.kernels if isinstance(k, SpecialKernel)]
    roots = [root for kernel in plan.kernels for root in kernel.roots()]
    values = list(walk_all(roots))
    rows = [k for k in loops if k.reduced is not None]
    return Features(
        rows=any(len(k.dims) - 1 in (k.reduced or ()) for k in rows),
        shared_between_passes=any(len(k.inner) == 1 and _keepable(k) for k in rows),
        full=any(a.level == "full" for k in rows for a in k.accumulations.values()) or any(not k.outer for k in rows),
        columns=any(len(k.dims) - 1 not in (k.reduced or ()) and k.outer for k in rows),
        pointwise=any(k.reduced is None or not k.outer for k in loops),
        variance=any(n.target in VARIANCES for n in graph.nodes),
        softmax=any(_is_softmax(k) for k in rows),
        transcendental=any(v.op in _TRANSCENDENTAL for v in values),
        moderate=any(v.op in _MODERATE and is_float(v.dtype) for v in values),
        fast_error=_fast_error({v.op for v in values}),
        float_sums=any(a.op in ("sum", "prod") and is_float(a.dtype) for k in rows for a in k.accumulations.values()),
        search=any(v.op == "search" for v in values),
        externs=bool(plan.externs),
        windows=len(spell_windows(graph, "slices").nodes) > len(graph.nodes),
        products=is_rewritten(graph, plan),
        attention=fuse_scored_attention(graph) != graph,
        convolutions=has_channels_last(graph),
        in_place=any(overwritten(plan, k) for k in loops),
        large_outputs=any(_bytes(plan.nodes[s.buffer.name]) >= _LARGE for k in loops for s in k.stores.values())
        or any(_elements(plan, k.nodes[0]) * 8 >= _LARGE for k in special),
        several_anchors=len(loops) > 1 or any(len(k.accumulations) + len(k.stores) > 2 for k in rows),
        elements=max((_largest(plan, k.nodes) for k in plan.kernels), default=0),
    )


def is_rewritten(graph: Graph, plan: Plan) -> bool:
    """Whether the plan's matrix products are others than those that were captured."""
    return _products(graph) != _products(plan.graph)


def _products(graph: Graph) -> list[tuple[str, tuple[TensorMeta, ...]]]:
    nodes = (node for node in graph.nodes if base_name(node.target) in ("mm", "bmm", "_int_mm"))
    return [(node.target, node.values) for node in nodes]


def _fast_error(operators: set[str]) -> float:
    functions = operators & {name for name, _ in ERROR_ULP}
    return sum(ERROR_ULP[name, resolve(name, "fast")] for name in functions & _TRANSCENDENTAL) * _LAST_PLACE


def _keepable(kernel: Kernel) -> bool:
    return any(node.cost >= 2 for node, _ in shared_values(kernel).values())


def _is_softmax(kernel: Kernel) -> bool:
    from ..lowering.online import online_pairs

    return bool(online_pairs(kernel))


def _elements(plan: Plan, name: str) -> int:
    sizes = [math.prod(meta.example) for meta in plan.nodes[name].values if meta.example or not meta.shape]
    for arg in plan.nodes[name].args[:1]:
        source = plan.nodes.get(getattr(arg, "name", ""))
        sizes += [math.prod(meta.example) for meta in source.values if meta.example] if source else []
    return max(sizes, default=0)


def _largest(plan: Plan, names: list[str]) -> int:
    return max((_elements(plan, name) for name in names), default=0)


def _bytes(node: Node) -> int:
    from ...hardware.machine.work import dtype_bytes

    meta = node.values[0]
    return math.prod(meta.example) * dtype_bytes(meta.dtype) if meta.example else 0
