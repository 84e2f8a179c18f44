"""Finds softmax pairs: a maximum over a row, and the sum of ``exp(element - maximum)`` over the same row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Graph, Node
from ..ir.loops import Accumulation, Kernel
from ..ir.scalar import Scalar

_DECIDING = (
    "argmax", "argmin", "max", "min", "topk", "sort", "argsort", "kthvalue", "median", "mode", "eq", "ne", "gt", "ge",
    "lt", "le", "sign", "sgn", "nonzero", "logical_not", "any", "all", "log", "log2", "log10", "logit", "ceil",
    "reciprocal", "rsqrt",
)  # fmt: skip
"""Operators to which the smallest number is another one than zero."""
_MIXING = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution", "scaled_dot_product_attention")
"""Operators that add up so much that the smallest numbers are lost."""


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


def deciding_exponentials(graph: Graph) -> frozenset[str]:
    """Exponentials on which something decides: of two gates that are subnormal the larger one is the second choice,
    of two zeros the first one is."""
    read: set[str] = set()
    nodes = {node.name: node for node in graph.nodes}
    for node in reversed(graph.nodes):
        operator = node.target.removeprefix("aten.").split(".")[0]
        to_bool = operator == "_to_copy" and bool(node.values) and node.values[0].dtype == "bool"
        is_lost = operator in _MIXING or (operator == "add" and _is_normal(node.args[1]))
        if operator in _DECIDING or to_bool or (node.name in read and not is_lost):
            read.update(operands(node))
        elif operator == "div" and not _is_softmax(node, nodes):
            read.update(refs(node.args[1:]))  # of shares that are normalized again, zeros would give NaN
    return frozenset(node.name for node in graph.nodes if node.name in read and node.target.startswith("aten.exp."))


def _is_normal(arg: Arg) -> bool:
    """Whether ``arg`` is a number in which a subnormal one is lost when it is added."""
    return isinstance(arg, (int, float)) and abs(arg) > 1e-30


def _is_softmax(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether ``node`` is ``exp(x) / sum(exp(x))``: if ``x`` is a distance from a maximum, the sum is 1 or more."""
    shares, total = list(refs(node.args[:1])), [nodes[name] for name in refs(node.args[1:2])]
    sums = all(n.target.startswith("aten.sum.") and [*refs(n.args[:1])] == shares for n in total)
    return not total or (sums and all(nodes[name].target.startswith("aten.exp.") for name in shares))


def from_maxima(kernel: Kernel, exact: Iterable[str] = ()) -> Kernel:
    """The same kernel with the exponentials of distances from a row's maximum named: none of them is above 1, and
    subnormal ones may be 0. Those of the nodes ``exact`` stay as they are."""
    bodies = (pair.total.body for pair in online_pairs(kernel) if pair.total.dtype == "float32")
    pairs = {body.key for body in bodies if not {*exact} & {*body.label}}

    def change(node: Scalar) -> Scalar | None:
        return Scalar("exp_down", node.dtype, node.args, label=node.label) if node.key in pairs else None

    return kernel.rewritten(change) if pairs else kernel


def _exponent(body: Scalar) -> tuple[Scalar, Scalar] | None:
    """``(e, m)`` if ``body`` is ``exp(e - m)`` with ``m`` the result of a reduction."""
    if body.op != "exp" or body.args[0].op != "sub":
        return None
    element, maximum = body.args[0].args
    return (element, maximum) if maximum.op == "result" else None
