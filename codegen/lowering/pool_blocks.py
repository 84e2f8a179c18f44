"""Rewrites pools with large windows that do not overlap as reductions over blocks of the input."""

from ...schemas import Arg, Items, Node, Ref, TensorMeta
from ..ir.build import compute_dtype
from ..ir.poly import poly
from .calls import call, viewed, with_dtype
from .views import dim_of, size_argument
from .windows import Window

LARGEST = 4096
"""Elements of such a window at most."""


def blocks(node: Node, source: Node, window: Window, divisor: int) -> list[Node]:
    """``node`` as a sum, divided by ``divisor``, or as a maximum (``divisor`` 0); the last node has its name."""
    result, meta, rank = node.values[0], source.values[0], len(window.size)
    leading = len(meta.shape) - rank
    out = result.shape[leading:]
    nodes: list[Node] = []
    shape, example, below = list(meta.shape), list(meta.example), source.name
    for place, (size, count) in enumerate(zip(window.size, out, strict=True)):
        dim, end = leading + place, poly(count) * size
        shape[dim], example[dim : dim + 1] = dim_of(end), [n * size for n in result.example[dim : dim + 1]]
        below = f"{node.name}_whole{place}"
        args: tuple[Arg, ...] = (Ref(name=nodes[-1].name if nodes else source.name), dim, 0, size_argument(end), 1)
        slice_meta = TensorMeta(shape=tuple(shape), dtype=meta.dtype, example=tuple(example))
        nodes.append(call(below, "aten.slice.Tensor", args, slice_meta))
    cut = [*shape[:leading], *(part for pair in zip(out, window.size, strict=True) for part in pair)]
    pairs = zip(result.example[leading:], window.size, strict=True)
    at = (*example[:leading], *(part for pair in pairs for part in pair))
    split = TensorMeta(shape=tuple(cut), dtype=meta.dtype, example=at)
    nodes.append(viewed(f"{node.name}_blocks", below, split))
    over = Items(items=tuple(leading + 2 * place + 1 for place in range(rank)))
    blocked = Ref(name=nodes[-1].name)
    if not divisor:
        return [*nodes, call(node.name, "aten.amax.default", (blocked, over), result)]
    wide = with_dtype(result, compute_dtype(result.dtype))
    total = call(f"{node.name}_total", "aten.sum.dim_IntList", (blocked, over), wide)
    return [*nodes, total, call(node.name, "aten.div.Tensor", (Ref(name=total.name), divisor), result)]
