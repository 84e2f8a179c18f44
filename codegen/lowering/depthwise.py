"""Rewrites depthwise convolutions as sums of shifted slices, each times one weight."""

import math
from collections.abc import Collection

from ...hardware.machine.work import refs
from ...schemas import Arg, Expr, Graph, Node, Ref, TensorMeta
from ..ir.build import compute_dtype, is_float
from ..ir.poly import poly
from .calls import call, in_order, permuted, viewed, with_dtype
from .normal import VARIANCES
from .pointwise import base_name, is_pointwise
from .reductions import is_reduction
from .views import VIEWS, shape_of
from .windows import MOST, Window, numbers, padded, sliced

_STATISTICS = 4
"""Operators from a convolution's result to the sum of its squared distances: bias, difference, square, sum."""


def spell_depthwise(graph: Graph, left: Collection[str] = ()) -> Graph:
    """The graph with depthwise convolutions, those ``left`` aside, as elementwise operators, where windows are small.

    It is right for windows of their size at the main shape only: guards say so.
    """
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    guards = dict.fromkeys(graph.guards)
    for node in graph.nodes:
        window = None if node.name in left else _window(node, nodes)
        new_nodes += [node] if window is None else _spelled(node, nodes, window)
        if window is not None:
            weight = nodes[list(refs(node.args))[1]].values[0]
            sizes = zip(weight.shape[2:], window.size, strict=True)
            guards |= dict.fromkeys(f"{size} == {n}" for size, n in sizes if isinstance(size, str))
    return Graph(nodes=tuple(new_nodes), symbols=graph.symbols, guards=tuple(guards))


def is_depthwise(node: Node, nodes: dict[str, Node]) -> bool:
    """Whether a convolution of PyTorch, whichever of its operators it is, takes every channel by itself."""
    if base_name(node.target) not in ("convolution", "_convolution") or not all(
        isinstance(a, Ref) for a in node.args[:2]
    ):
        return False
    x, w = (nodes[name] for name in refs(node.args[:2]))
    return not node.args[6] and w.values[0].shape[1] == 1 and _is_every_channel(node.args[8], x, w)


def measured_convolutions(graph: Graph) -> dict[str, int]:
    """Convolutions whose results are read by reductions, directly or as their distances from something, with the places
    of their windows."""
    nodes = {node.name: node for node in graph.nodes}
    measured: dict[str, int] = {}
    for node in graph.nodes:
        names = set(refs(node.args)) if is_reduction(node) or node.target in VARIANCES else set()
        for _ in range(_STATISTICS):
            for name in names:
                if base_name(nodes[name].target) == "convolution":
                    weight = nodes[list(refs(nodes[name].args))[1]].values[0]
                    measured[name] = math.prod(weight.example[2:])
            between = (nodes[name] for name in names)
            names = {name for node in between if _is_elementwise(node) for name in refs(node.args)}
    return measured


def _is_elementwise(node: Node) -> bool:
    return is_pointwise(node.target) or base_name(node.target) in VIEWS


def _window(node: Node, nodes: dict[str, Node]) -> Window | None:
    """The window of a depthwise convolution with a filter for each channel; None for anything else."""
    if node.target != "aten.convolution.default" or not all(isinstance(a, Ref) for a in node.args[:2]):
        return None
    _, w = (nodes[name] for name in refs(node.args[:2]))
    meta, size = w.values[0], w.values[0].example[2:]
    rank = len(size)
    stride, padding, dilation = (numbers(arg, rank) for arg in node.args[3:6])
    fits = is_depthwise(node, nodes) and is_float(meta.dtype) and rank > 0 and 1 < math.prod(size) <= MOST
    return Window(size, stride, padding, dilation) if fits and stride and padding and dilation else None


def _is_every_channel(groups: Arg, x: Node, w: Node) -> bool:
    """Whether there are as many groups as channels, and as filters."""
    if x.values[0].example[1:2] != w.values[0].example[:1]:
        return False
    if isinstance(groups, Expr):
        return poly(groups.value) in (shape_of(x)[1], shape_of(w)[0])
    return (groups,) == w.values[0].example[:1]


def _spelled(node: Node, nodes: dict[str, Node], window: Window) -> list[Node]:
    """The last node has the name and the result of ``node``."""
    x, w, *bias = (nodes[name] for name in refs(node.args[:3]))
    result, rank, name = node.values[0], len(window.size), node.name
    wide = with_dtype(result, compute_dtype(result.dtype))
    channel_meta = _like_channels(w.values[0], rank)
    order = (1, 0, *range(2, rank + 2))
    weight = permuted(f"{name}_weight", w.name, order, in_order(w.values[0], order))
    new_nodes = [weight]
    if any(window.padding):
        x = padded(f"{name}_padded", x, window.padding, 0.0)
        new_nodes.append(x)
    terms: list[str] = []
    places = Window(window.size, window.stride, window.padding, (1,) * rank).taps()
    for number, (steps, place) in enumerate(zip(window.taps(), places, strict=True)):
        new_nodes += sliced(f"{name}_tap{number}", x, steps, window.stride, result)
        new_nodes += sliced(f"{name}_weight{number}", weight, place, (1,) * rank, channel_meta)
        factors = (Ref(name=f"{name}_tap{number}"), Ref(name=f"{name}_weight{number}"))
        terms.append(f"{name}_term{number}")
        new_nodes.append(call(terms[-1], "aten.mul.Tensor", factors, wide))
    if bias:
        new_nodes.append(viewed(f"{name}_bias", bias[0].name, channel_meta))
        terms.append(new_nodes[-1].name)
    return [*new_nodes, *_added(name, terms, wide, result)]


def _like_channels(weight: TensorMeta, rank: int) -> TensorMeta:
    """One number for each channel."""
    ones = (1,) * rank
    shape = (1, weight.shape[0], *ones)
    return TensorMeta(shape=shape, dtype=weight.dtype, example=(1, weight.example[0], *ones))


def _added(name: str, terms: list[str], wide: TensorMeta, result: TensorMeta) -> list[Node]:
    sums: list[Node] = []
    total = terms[0]
    for number, term in enumerate(terms[1:], 1):
        last = number == len(terms) - 1
        args: tuple[Arg, ...] = (Ref(name=total), Ref(name=term))
        total = name if last else f"{name}_sum{number}"
        sums.append(call(total, "aten.add.Tensor", args, result if last else wide))
    return sums
