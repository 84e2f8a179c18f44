"""Pools whose windows are large and lie side by side: reductions over blocks of the input."""

from ...schemas import Arg, Expr, Items, Node, Ref, TensorMeta
from ..ir.build import compute_dtype
from ..ir.poly import Poly, poly
from ..ir.printing import python_poly
from .windows import Window, call

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
        shape[dim], example[dim : dim + 1] = _dim(end), [n * size for n in result.example[dim : dim + 1]]
        below = f"{node.name}_whole{place}"
        args: tuple[Arg, ...] = (Ref(name=nodes[-1].name if nodes else source.name), dim, 0, _arg(_dim(end)), 1)
        slice_meta = TensorMeta(shape=tuple(shape), dtype=meta.dtype, example=tuple(example))
        nodes.append(call(below, "aten.slice.Tensor", args, slice_meta))
    cut = [*shape[:leading], *(part for pair in zip(out, window.size, strict=True) for part in pair)]
    pairs = zip(result.example[leading:], window.size, strict=True)
    at = (*example[:leading], *(part for pair in pairs for part in pair))
    split = TensorMeta(shape=tuple(cut), dtype=meta.dtype, example=at)
    nodes.append(call(f"{node.name}_blocks", "aten.view.default", (Ref(name=below), _items(cut)), split))
    over = Items(items=tuple(leading + 2 * place + 1 for place in range(rank)))
    blocked = Ref(name=nodes[-1].name)
    if not divisor:
        return [*nodes, call(node.name, "aten.amax.default", (blocked, over), result)]
    wide = TensorMeta(shape=result.shape, dtype=compute_dtype(result.dtype), example=result.example)
    total = call(f"{node.name}_total", "aten.sum.dim_IntList", (blocked, over), wide)
    return [*nodes, total, call(node.name, "aten.div.Tensor", (Ref(name=total.name), divisor), result)]


def _dim(p: Poly) -> int | str:
    return python_poly(p) if p.constant is None else p.constant


def _arg(dim: int | str) -> Arg:
    return Expr(value=dim) if isinstance(dim, str) else dim


def _items(dims: list[int | str]) -> Items:
    return Items(items=tuple(_arg(d) for d in dims))
