"""Costly values that broadcasting would have computed many times: the angles' cosines of rotary embeddings."""

import math
from collections.abc import Iterable, Set

from ...hardware.work import refs
from ...schemas import Graph, Node
from ..ir.scalar import COSTLY
from .pointwise import base_name, is_pointwise
from .views import VIEWS

LEAST_COST = 12
"""Instructions a lane from which a value is costly."""
TIMES = 4
"""How often a value must be computed at least before storing it pays."""
LEAST_SAVED = 1 << 14
"""Evaluations that must be saved: another kernel takes as long as some thousand."""

_COSTLY = {name for name, cost in COSTLY.items() if cost >= LEAST_COST} | {"gelu", "silu", "softplus", "mish"}


def repeated(graph: Graph, live: Set[str], leaves: Set[str]) -> list[str]:
    """Costly pointwise values that much larger values are computed of, without a reduction between input and use.

    What depends on a reduction is computed once a row already, in the kernel of the reduction.
    """
    inline: set[str] = set()
    """Nodes that a kernel computes in place, of inputs alone."""
    for node in graph.nodes:
        if node.name in leaves or (_is_computed(node) and all(name in inline for name in _read(node))):
            inline.add(node.name)
    evaluations: dict[str, int] = {}
    """How often a node's elements are computed in all, if nothing more is stored."""
    found = []
    for node in reversed(graph.nodes):
        if node.name not in live or node.name in leaves or not _is_computed(node):
            continue
        size = math.prod(node.values[0].example)
        times = max(evaluations.get(node.name, 0), size)
        costly = node.name in inline and base_name(node.target) in _COSTLY
        if costly and times >= max(TIMES * size, size + LEAST_SAVED):
            found.append(node.name)
            times = size
        for name in _read(node):
            evaluations[name] = max(evaluations.get(name, 0), times)
    return found


def _is_computed(node: Node) -> bool:
    return node.op == "call" and bool(node.values) and (is_pointwise(node.target) or base_name(node.target) in VIEWS)


def _read(node: Node) -> Iterable[str]:
    return refs((*node.args, *node.kwargs.values()))
