"""Where in memory a kernel reads an operand without a copy: the stored value, the first element, and the strides."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...schemas import Node, Ref
from ..ir.build import Unsupported
from ..ir.poly import ONE, ZERO, Poly, floordiv, poly, variable
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.views import VIEWS, Index, linear, shape_of, source_index
from .prepare import Sizes

_COPIES = {"flip", "repeat"}
"""Views for the index arithmetic that PyTorch makes as copies."""


@dataclass(frozen=True)
class Layout:
    """An operand in memory, all in elements, over the sizes."""

    base: str
    """The value of the graph in whose memory it lies."""
    given: tuple[Poly, ...] | None
    """Strides that the base must have; None: it is contiguous."""
    strides: tuple[Poly, ...]
    """Of the operand."""
    offset: Poly
    """Of its first element in the base."""

    def is_plain(self, shape: Index) -> bool:
        """Whether it is what a contiguous base begins with."""
        return self.given is None and not self.offset.terms and self.strides == contiguous(shape)


def layout_of(name: str, plan: Plan) -> Layout:
    """The layout of a value: in place in what it is a view of, else contiguous."""
    node = plan.nodes[name]
    shape = shape_of(node)
    index: Index = tuple(variable(f"i{d}") for d in range(len(shape)))
    bounds = dict(zip((f"i{d}" for d in range(len(shape))), shape, strict=True))
    base, item = node, 0
    try:
        while (below := _below(base, plan)) is not None:
            if base.target == "operator.getitem":
                item = int(base.args[1])  # type: ignore[arg-type]
            else:
                index = source_index(base, base_name(base.target), shape_of(below), index, item, bounds)
            base = below
    except (Unsupported, ValueError, AssertionError):
        return Layout(name, None, contiguous(shape), ZERO)
    given = _given(base, plan)
    at = _merged(sum_of(index, given or contiguous(shape_of(base))))
    strides = [at.coefficient(variable_name) for variable_name in bounds]
    if any(stride is None for stride in strides):
        return Layout(name, None, contiguous(shape), ZERO)
    first = at.substitute(dict.fromkeys(bounds, ZERO))
    return Layout(base.name, given, tuple(s for s in strides if s is not None), first)


def contiguous(shape: Index) -> tuple[Poly, ...]:
    """Strides of a contiguous tensor."""
    places = [tuple(ONE if d == e else ZERO for e in range(len(shape))) for d in range(len(shape))]
    return tuple(linear(place, shape) for place in places)


def sum_of(index: Sequence[Poly], strides: Sequence[Poly]) -> Poly:
    """Offset of an element in a tensor with ``strides``."""
    offset = ZERO
    for position, stride in zip(index, strides, strict=True):
        offset = offset + position * stride
    return offset


def _merged(offset: Poly) -> Poly:
    """``i // n * (n * s) + i % n * s`` as ``i * s``: dimensions that a view has merged."""
    total = ZERO
    for monomial, factor in offset.terms:
        term = poly(factor)
        for atom in monomial:
            if isinstance(atom, tuple) and atom[0] == "%":
                dividend, divisor = atom[1:]
                term = term * (dividend - divisor * floordiv(dividend, divisor))
            else:
                term = term * Poly((((atom,), 1),))
        total = total + term
    return total


def _below(node: Node, plan: Plan) -> Node | None:
    """What ``node`` is a view of, if it is one that nobody has computed."""
    if node.op != "call" or plan.is_extern(node) or plan.kernel_of(node.name) is not None:
        return None
    first = node.args[0] if node.args else None
    if not isinstance(first, Ref):
        return None
    name = base_name(node.target)
    if node.target == "operator.getitem":
        is_view = base_name(plan.nodes[first.name].target) in VIEWS and not plan.is_extern(plan.nodes[first.name])
        return plan.nodes[first.name] if is_view else None
    return plan.nodes[first.name] if name in VIEWS - _COPIES else None


def _given(node: Node, plan: Plan) -> tuple[Poly, ...] | None:
    """Strides that the reference saw, where each element has a place of its own and the sizes say which."""
    made_here = node.op == "constant" or node.target.startswith("ks.") or plan.kernel_of(node.name) is not None
    if made_here or not node.values or len(node.values[0].strides) != len(node.values[0].shape):
        return None
    shape = shape_of(node)
    try:
        strides = tuple(poly(stride) for stride in node.values[0].strides)
    except ValueError:
        return None
    usual = contiguous(shape)
    if all(a == b for a, b, size in zip(strides, usual, shape, strict=True) if size != ONE):
        return None
    sizes = Sizes({name: source.example for name, source in plan.graph.symbols.items()})
    if not all(sizes.is_backed(p) for p in (*shape, *strides)):
        return None
    return strides if _is_apart([sizes.of(p) for p in shape], [sizes.of(p) for p in strides]) else None


def _is_apart(shape: list[int], strides: list[int]) -> bool:
    """Whether no two elements share a place."""
    reach = 0
    for stride, size in sorted((b, a) for a, b in zip(shape, strides, strict=True) if a > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True
