"""Finds variance pairs: the sum of a row, and the sum of squared distances from the mean that it gives."""

from dataclasses import dataclass

from ..ir.loops import Accumulation, Kernel
from ..ir.poly import Poly, product
from ..ir.scalar import Scalar


@dataclass(frozen=True)
class VariancePair:
    """Two accumulations that one pass can make together (Welford 1962; Chan, Golub and LeVeque 1983)."""

    total: Accumulation
    squares: Accumulation


def variance_pairs(kernel: Kernel) -> list[VariancePair]:
    """The pairs in ``kernel``."""
    rows = {a.name: a for a in kernel.accumulations.values() if a.level == "row"}
    count = product(kernel.dims[d] for d in kernel.inner)
    pairs = []
    for squares in rows.values():
        distance = _distance(squares.body, count) if squares.op == "sum" else None
        if distance is None:
            continue
        element, name = distance
        total = rows.get(name)
        same = total is not None and total.op == "sum" and total.body == element and total.dtype == squares.dtype
        if total is not None and same and total.dtype in ("float32", "float64"):
            pairs.append(VariancePair(total, squares))
    return pairs


def _distance(body: Scalar, count: Poly) -> tuple[Scalar, str] | None:
    """``(e, s)`` if ``body`` is the square of ``e - s / count`` with ``s`` the result of a reduction."""
    if body.op != "mul" or body.args[0] != body.args[1] or body.args[0].op != "sub":
        return None
    element, mean = body.args[0].args
    if mean.op != "div" or mean.args[0].op != "result" or not _is_count(mean.args[1], count):
        return None
    return element, str(mean.args[0].data)


def _is_count(divisor: Scalar, count: Poly) -> bool:
    if divisor.op == "const":
        return count.constant is not None and float(divisor.data) == count.constant
    while divisor.op == "cast":
        (divisor,) = divisor.args
    return divisor.op == "index" and divisor.polys[0] == count
