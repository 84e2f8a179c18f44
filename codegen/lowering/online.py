"""Finds softmax pairs: a maximum over a row, and the sum of ``exp(element - maximum)`` over the same row."""

from dataclasses import dataclass

from ..ir.loops import Accumulation, Kernel
from ..ir.scalar import Scalar


@dataclass(frozen=True)
class OnlinePair:
    """Two accumulations that one pass can make together, rescaling the sum whenever the maximum grows."""

    maximum: Accumulation
    total: Accumulation


def online_pairs(kernel: Kernel) -> list[OnlinePair]:
    """The pairs in ``kernel``."""
    rows = {a.name: a for a in kernel.accumulations.values() if a.level == "row"}
    pairs = []
    for total in rows.values():
        shifted = _exponent(total.body)
        if total.op != "sum" or shifted is None:
            continue
        element, maximum = shifted
        row_max = rows.get(maximum.data)
        if row_max is not None and row_max.op == "max" and row_max.body == element and row_max.dtype == total.dtype:
            pairs.append(OnlinePair(row_max, total))
    return pairs


def from_maxima(kernel: Kernel) -> Kernel:
    """The same kernel with the exponentials of distances from a row's maximum named: none of them is above 1."""
    pairs = {pair.total.body.key for pair in online_pairs(kernel) if pair.total.dtype == "float32"}

    def change(node: Scalar) -> Scalar | None:
        return Scalar("exp_down", node.dtype, node.args, label=node.label) if node.key in pairs else None

    return kernel.rewritten(change) if pairs else kernel


def _exponent(body: Scalar) -> tuple[Scalar, Scalar] | None:
    """``(e, m)`` if ``body`` is ``exp(e - m)`` with ``m`` the result of a reduction."""
    if body.op != "exp" or body.args[0].op != "sub":
        return None
    element, maximum = body.args[0].args
    return (element, maximum) if maximum.op == "result" else None
