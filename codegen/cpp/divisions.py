"""Integer divisions with PyTorch's rounding and division by zero, which C++ does not have."""

from ...schemas import Expr, Graph, Node
from ..ir.build import is_float, number
from ..ir.poly import poly
from ..lowering.pointwise import base_name

_LIMITS = {f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)} | {"uint8": (0, 255)}
_DIVISIONS = {"div", "floor_divide", "remainder", "fmod"}


def unsafe_divisions(graph: Graph) -> set[str]:
    """Nodes that divide integers by what may be 0 or -1: PyTorch raises an error at 0 and takes -1 for all integers,
    and in C++ a process dies of both."""
    return {node.name for node in graph.nodes if _is_unsafe(node)}


def _is_unsafe(node: Node) -> bool:
    if base_name(node.target) not in _DIVISIONS or not node.values or is_float(node.values[0].dtype):
        return False
    divisor = node.args[1]
    if isinstance(divisor, Expr):
        # Sizes are positive where kernels run, and so are their sums and products.
        terms = poly(divisor.value).terms
        return any(factor < 0 or not all(isinstance(atom, str) for atom in atoms) for atoms, factor in terms)
    low, high = _LIMITS.get(node.values[0].dtype, (0, 0))
    value = number(divisor)
    # What does not fit becomes another number, 0 among them.
    return value is None or not value or not low <= value <= high
