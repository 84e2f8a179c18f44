"""Rewrites sliding windows over a tensor as slices of the input, one for each element of a window."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ...schemas import Arg, Items, Node, Ref, TensorMeta
from ..ir.poly import Poly, poly
from .calls import call
from .views import dim_of, shape_of, size_argument

MOST = 64
"""Elements of a window from which on PyTorch's kernel is the better one."""


@dataclass(frozen=True)
class Window:
    """How an operator looks at its input; one number for every dimension that the window has."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    reaches_beyond: bool = False
    """Whether the last window may reach beyond the padding: sizes are rounded up."""

    def taps(self) -> Iterator[tuple[int, ...]]:
        """Where every element of the window lies, from its first."""
        yield from product(*([k * d for k in range(n)] for n, d in zip(self.size, self.dilation, strict=True)))


def numbers(arg: object, rank: int) -> tuple[int, ...]:
    """One number for each of ``rank`` dimensions; empty where they are no numbers."""
    items = arg.items if isinstance(arg, Items) else (arg,)
    integers = tuple(i for i in items if isinstance(i, int))
    if not items or len(integers) != len(items):
        return ()
    return integers * rank if len(integers) == 1 else integers if len(integers) == rank else ()


def padded(name: str, source: Node, padding: tuple[int, ...], fill: Arg) -> Node:
    """``source`` with ``fill`` around its last dimensions."""
    rank = len(padding)
    wide = [size + 2 * p for size, p in zip(shape_of(source)[-rank:], padding, strict=True)]
    example = [size + 2 * p for size, p in zip(source.values[0].example[-rank:], padding, strict=True)]
    return _filled(name, source, padding, wide, example, fill)


def padded_to_windows(name: str, source: Node, window: Window, result: TensorMeta, fill: Arg) -> Node:
    """``source`` with ``fill`` around its last dimensions, up to the end of the last window of ``result``."""
    rank = len(window.size)
    whole = [d * (n - 1) + 1 for n, d in zip(window.size, window.dilation, strict=True)]
    counts = zip(result.shape[-rank:], window.stride, whole, strict=True)
    wide = [(poly(count) - 1) * step + reach for count, step, reach in counts]
    examples = zip(result.example[-rank:], window.stride, whole, strict=True)
    return _filled(name, source, window.padding, wide, [(n - 1) * step + reach for n, step, reach in examples], fill)


def _filled(name: str, source: Node, before: tuple[int, ...], wide: list[Poly], example: list[int], fill: Arg) -> Node:
    """``source`` with its last dimensions as ``wide`` as that, ``before`` elements of ``fill`` first."""
    meta, rank = source.values[0], len(before)
    shape = (*meta.shape[:-rank], *map(dim_of, wide))
    result = TensorMeta(shape=shape, dtype=meta.dtype, example=(*meta.example[:-rank], *example))
    sides = list(zip(before, wide, shape_of(source)[-rank:], strict=True))
    pads = Items(items=tuple(side for p, to, size in reversed(sides) for side in (p, size_argument(to - size - p))))
    return call(name, "aten.constant_pad_nd.default", (Ref(name=source.name), pads, fill), result)


def sliced(name: str, source: Node, steps: tuple[int, ...], stride: tuple[int, ...], result: TensorMeta) -> list[Node]:
    """Every ``stride``-th element from ``steps`` on, along one pooled dimension after the other."""
    nodes: list[Node] = []
    meta = source.values[0]
    rank, total = len(steps), len(meta.shape)
    shape, example, below = list(meta.shape), list(meta.example), source.name
    for number, (start, step) in enumerate(zip(steps, stride, strict=True)):
        dim = total - rank + number
        shape[dim] = result.shape[dim]
        example[dim : dim + 1] = result.example[dim : dim + 1]
        end = (poly(result.shape[dim]) - 1) * step + (start + 1)
        part = name if number == rank - 1 else f"{name}_{number}"
        args = (Ref(name=below), dim, start, size_argument(end), step)
        slice_meta = TensorMeta(shape=tuple(shape), dtype=meta.dtype, example=tuple(example))
        nodes.append(call(part, "aten.slice.Tensor", args, slice_meta))
        below = part
    return nodes
