"""Operators before a product, computed on its operands' tiles instead of being stored first."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...hardware.machine.work import refs
from ..ir.loops import Kernel
from ..ir.poly import Poly, product
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.views import RESHAPES
from .scope import OUTSIDE, Axis, TritonScope
from .text import TYPES, TritonNeeds


@dataclass(frozen=True)
class Prologue:
    """A pointwise kernel whose only result is one operand of one product."""

    kernel: Kernel
    name: str
    """The value it stores."""
    place: int
    """The dimension from which on the kernel's dimensions are the operand's columns."""


def prologue(operand: str, reader: str, rows: Poly, columns: Poly, plan: Plan) -> Prologue | None:
    """The kernel that makes an operand of ``rows`` by ``columns`` for the operator ``reader`` and nothing else."""
    node = plan.nodes[operand]
    while node.op == "call" and base_name(node.target) in RESHAPES and plan.kernel_of(node.name) is None:
        node = plan.nodes[next(refs(node.args))]
    kernel = plan.kernel_of(node.name)
    if not isinstance(kernel, Kernel) or kernel.reduced is not None or set(kernel.stores) != {node.name}:
        return None
    place = dimension_of(kernel, rows, columns)
    if place is None or not _only_reader(node.name, reader, plan):
        return None
    return Prologue(kernel, node.name, place)


def dimension_of(kernel: Kernel, rows: Poly, columns: Poly) -> int | None:
    """The dimension from which on a kernel's dimensions are the columns of a matrix, those before being its rows."""
    for place in range(len(kernel.dims) + 1):
        if product(kernel.dims[place:]) == columns and product(kernel.dims[:place]) == rows:
            return place
    return None


def _only_reader(name: str, reader: str, plan: Plan) -> bool:
    """Whether ``reader`` reads the value once, and nothing else does."""
    return not plan.readers(name) and plan.outside_readers.get(name) == [reader]


class PrologueWriter:
    """Prints one operand's values on one tile; every tile has a writer of its own."""

    def __init__(self, before: Prologue, needs: TritonNeeds, taken: Iterable[str]) -> None:
        kernel, place = before.kernel, before.place
        names = [f"i{d}" for d in range(len(kernel.dims))]
        axes = [
            Axis("rows", tuple(names[:place]), kernel.dims[:place], "row_mask"),
            Axis("cols", tuple(names[place:]), kernel.dims[place:], "col_mask"),
        ]
        self.store = kernel.stores[before.name]
        self.scope = TritonScope(needs, axes, {*names[place:], "cols"})
        self.scope.one_level = True
        self.scope.taken |= set(taken)
        self.scope.count([self.store.value])

    def lines(self, target: str, rows: str, cols: str, row_mask: str, col_mask: str) -> list[str]:
        """Statements after which ``target`` is the operand's tile; zero outside of the matrix."""
        head = [f"rows = {rows}", f"cols = {cols}", f"row_mask = {row_mask}", f"col_mask = {col_mask}"]
        value = self.scope.text(self.store.value)
        dtype = TYPES[self.store.buffer.dtype]
        return [
            *head,
            *self.scope.lines[OUTSIDE],
            f"{target} = tl.cast(tl.where(row_mask & col_mask, {value}, 0.0), {dtype})",
        ]
