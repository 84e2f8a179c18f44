"""ATen reductions as sum, product, maximum, minimum, and, or, and as positions of extremes."""

from collections.abc import Container
from dataclasses import dataclass

from ...hardware.machine.work import refs
from ...schemas import Node, Ref
from ..ir.build import binary, cast, compute_dtype, const
from ..ir.poly import Poly
from ..ir.scalar import Scalar
from .pointwise import base_name
from .views import dims_of

_ACCUMULATE = {
    "sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min", "any": "any", "all": "all",
    "argmax": "argmax", "argmin": "argmin",
}  # fmt: skip
_WITHOUT_DIMS = {"aten.max.default": "max", "aten.min.default": "min"}


@dataclass(frozen=True)
class Reduction:
    """What a reduction node asks for."""

    source: str
    """Node that is reduced."""

    accumulate: str
    """``sum``, ``prod``, ``max``, ``min``, ``any``, ``all``, ``argmax`` or ``argmin``."""

    dims: tuple[int, ...]
    """Dimensions of the source that go."""

    keepdim: bool
    """Whether they stay with size 1."""

    dtype: str
    """dtype of the accumulator and of the body."""


def is_reduction(node: Node) -> bool:
    """Whether the node is a reduction that generated code can compute."""
    if node.target in _WITHOUT_DIMS:
        return True
    name = base_name(node.target)
    if name.startswith("arg") and (len(node.args) < 2 or not isinstance(node.args[1], int)):
        return False
    return node.target.startswith("aten.") and name in _ACCUMULATE and len(node.values) == 1


def describe(node: Node, source: Node) -> Reduction:
    """Read a reduction node; ``source`` is its first argument."""
    assert isinstance(node.args[0], Ref)
    name = base_name(node.target)
    accumulate = _WITHOUT_DIMS.get(node.target) or _ACCUMULATE[name]
    overall = node.target.endswith(".default") and name not in ("amax", "amin", "argmax", "argmin")
    dim = None if overall or len(node.args) < 2 else node.args[1]
    keepdim = bool(node.args[2]) if len(node.args) > 2 and not overall else bool(node.kwargs.get("keepdim", False))
    result = compute_dtype(node.values[0].dtype)
    if accumulate in ("max", "min", "argmax", "argmin"):
        result = compute_dtype(source.values[0].dtype)
    dims = dims_of(dim, len(source.values[0].shape))
    return Reduction(node.args[0].name, accumulate, dims, keepdim, result)


def body_of(reduction: Reduction, element: Scalar) -> Scalar:
    """What is accumulated for one element."""
    if reduction.accumulate in ("any", "all"):
        return cast(element, "bool")
    return cast(element, reduction.dtype)


def finish(node: Node, result: Scalar, count: Poly) -> Scalar:
    """The node's value from the accumulated one: ``mean`` divides by ``count``."""
    dtype = compute_dtype(node.values[0].dtype)
    if base_name(node.target) == "mean":
        divisor = const(count.constant, dtype) if count.constant is not None else _index_as(count, dtype)
        return binary("div", dtype, result, divisor)
    return cast(result, dtype)


def _index_as(count: Poly, dtype: str) -> Scalar:
    return cast(Scalar("index", "int64", polys=(count,)), dtype)


def result_dtype(reduction: Reduction) -> str:
    """dtype of the accumulated value: a position for ``argmax``, a truth value for ``any``."""
    if reduction.accumulate in ("argmax", "argmin"):
        return "int64"
    return "bool" if reduction.accumulate in ("any", "all") else reduction.dtype


def made_of(node: Node, nodes: dict[str, Node], reductions: Container[str], stops: Container[str]) -> set[str]:
    """The ``reductions`` that ``node`` is made of by other operators; what is in ``stops`` is no more looked into."""
    met = {node.name}
    waiting = [node]
    while waiting:
        for name in refs(waiting.pop().args):
            if name not in met and name not in stops:
                met.add(name)
                if name not in reductions:
                    waiting.append(nodes[name])
    return {name for name in met if name in reductions}
