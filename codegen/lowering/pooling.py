"""Rewrites pools as maxima and sums over shifted, strided slices of the input, which fuse with their neighbours."""

import math
from collections.abc import Callable

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Graph, Node, Ref, SpecialFloat
from ..ir.build import compute_dtype, is_float
from ..ir.poly import poly
from .calls import call, with_dtype
from .pointwise import base_name, is_pointwise
from .pool_blocks import LARGEST, blocks
from .views import VIEWS
from .windows import MOST, Window, numbers, padded, padded_to_windows, sliced

_MAXIMA = ("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
_MEANS = ("avg_pool1d", "avg_pool2d", "avg_pool3d")
_NESTED = 32
"""Elements that one element of a pool of a pool may be made of; with more, the first one is stored."""


def spell_pools(
    graph: Graph, accepts: Callable[[Window, Node], bool] = lambda window, source: True, stores: bool = False
) -> Graph:
    """The graph with pooling operators as chains of slices, where windows are small and their sizes known.

    ``accepts`` says which windows on what they slide over; the others stay operators. ``stores`` says that what windows
    read where they overlap is stored first.
    """
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    reads: dict[str, int] = {}
    for node in graph.nodes:
        pool = _pool_of(node, nodes, graph)
        window = None if pool is None else _window(pool)
        reads[node.name] = _reads(node, reads)
        if pool is None or window is None:
            new_nodes.append(node)
            continue
        source = nodes[next(refs(pool.args))]
        taps = math.prod(window[0].size)
        if not accepts(window[0], source):
            new_nodes.append(node)
            continue
        if stores and window[0].stride < window[0].size:
            reads[source.name] = 1
        if reads[source.name] > 1 and reads[source.name] * taps > _NESTED:
            new_nodes.append(node)
            continue
        if taps > MOST:
            new_nodes += blocks(node, source, *window)
            continue
        reads[node.name] = reads[source.name] * taps
        new_nodes += _spelled(node, source, *window)
    return Graph(nodes=tuple(new_nodes), symbols=graph.symbols, guards=graph.guards)


def _reads(node: Node, reads: dict[str, int]) -> int:
    """How many elements of what is stored one element of ``node`` is made of, pools alone counted."""
    name = base_name(node.target)
    if node.op != "call" or not (is_pointwise(node.target) or name in VIEWS):
        return 1
    return max((reads.get(arg, 1) for arg in operands(node)), default=1)


def _pool_of(node: Node, nodes: dict[str, Node], graph: Graph) -> Node | None:
    """The pooling operator whose only result ``node`` is."""
    if node.op != "call":
        return None
    if base_name(node.target) in (*_MAXIMA, *_MEANS) and len(node.values) == 1:
        return node
    if node.target != "operator.getitem" or not isinstance(node.args[0], Ref) or node.args[1] != 0:
        return None
    pool = nodes[node.args[0].name]
    if base_name(pool.target) not in _MAXIMA:
        return None
    users = [n for n in graph.nodes if pool.name in operands(n)]
    return pool if users == [node] else None


def _window(pool: Node) -> tuple[Window, int] | None:
    """The window of a pooling operator, and the divisor of a mean (0: a maximum).

    None where its sizes are no numbers, or where it is too large or unusual.
    """
    name = base_name(pool.target)
    rank = int(name.split("pool")[1][0])
    values: dict[int | str, Arg] = {**dict(enumerate(pool.args)), **dict(pool.kwargs.items())}
    size = numbers(values.get(1, values.get("kernel_size")), rank)
    stride = numbers(values.get(2, values.get("stride")), rank) or size
    padding = numbers(values.get(3, values.get("padding", 0)), rank)
    mean = name in _MEANS
    dilation = (1,) * rank if mean else numbers(values.get(4, values.get("dilation", 1)), rank)
    ceil = values.get(4 if mean else 5, values.get("ceil_mode", False))
    if not size or not stride or not padding or not dilation or (ceil and mean) or math.prod(size) < 2:
        return None
    beside = stride == size and not any(padding) and set(dilation) == {1} and not ceil
    if math.prod(size) > (LARGEST if beside else MOST):
        return None
    if not isinstance(pool.args[0], Ref) or not is_float(pool.values[0].dtype):
        return None
    if ceil and not _are_sizes(pool.values[0].shape):
        return None
    divisor = values.get(6, values.get("divisor_override")) or math.prod(size) if mean else 0
    counts_padding = values.get(5, values.get("count_include_pad", True)) or values.get(
        6, values.get("divisor_override")
    )
    if not isinstance(divisor, int) or (mean and any(padding) and not counts_padding):
        return None
    return Window(size, stride, padding, dilation, bool(ceil)), divisor


def _are_sizes(shape: tuple[int | str, ...]) -> bool:
    """Whether rounding up left sizes that indices can be computed with."""
    try:
        return all(poly(size) is not None for size in shape)
    except ValueError:
        return False


def _spelled(node: Node, source: Node, window: Window, divisor: int) -> list[Node]:
    """The last node has the name and the result of ``node``."""
    result = node.values[0]
    mean = bool(divisor)
    meta = with_dtype(result, compute_dtype(result.dtype) if mean else result.dtype)
    nodes: list[Node] = []
    fill: Arg = 0.0 if mean else SpecialFloat(value="-inf")
    if window.reaches_beyond:
        source = padded_to_windows(f"{node.name}_padded", source, window, result, fill)
        nodes.append(source)
    elif any(window.padding):
        source = padded(f"{node.name}_padded", source, window.padding, fill)
        nodes.append(source)
    parts: list[str] = []
    for number, steps in enumerate(window.taps()):
        nodes += sliced(f"{node.name}_tap{number}", source, steps, window.stride, result)
        parts.append(nodes[-1].name)
    target = "aten.add.Tensor" if mean else "aten.maximum.default"
    total = parts[0]
    for number, part in enumerate(parts[1:], 1):
        last = not mean and number == len(parts) - 1
        name = node.name if last else f"{node.name}_of{number}"
        nodes.append(call(name, target, (Ref(name=total), Ref(name=part)), result if last else meta))
        total = name
    if mean:
        nodes.append(call(node.name, "aten.div.Tensor", (Ref(name=total), divisor), result))
    return nodes
