"""Stores values that kernels would compute many times: costly broadcast ones, and those that windows read again."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from ...hardware.machine.work import operands
from ...schemas import Graph, Node
from ..ir.scalar import COSTLY
from .lower import CREATIONS, GATHERS, PIECEWISE
from .pointwise import base_name, is_pointwise
from .views import VIEWS

LEAST_COST = 12
"""Instructions a lane from which a value is costly."""
TIMES = 4
"""How often a value must be computed at least before storing it pays."""
LEAST_SAVED = 1 << 14
"""Evaluations of such a value that must be saved: another kernel takes as long as some thousand. Of a value that costs
more, and for storing it to pay at all, fewer in proportion."""

LEAST_SLICES = 4
"""Slices of a value from which on they are elements of a window."""
TIMES_IN_WINDOWS = 1.5
"""How often windows must read a value's elements for storing it to pay: the loop that reads them is a plain one then.
Pools of 3 x 3 in steps of two took 1.6 ms instead of 12 so (one thread, a scale and ReLU before them)."""

_MOST_COST = 500
"""What costs more is counted as this."""

_COSTLY = {name for name, cost in COSTLY.items() if cost >= LEAST_COST} | {"gelu", "silu", "softplus", "mish"}


def repeated(graph: Graph, live: Set[str], leaves: Set[str]) -> list[str]:
    """Values that are stored although kernels could compute them where they are read.

    Costly ones have no reduction between input and use: what depends on a reduction is computed once a row already, in
    the kernel of the reduction; what is constant along the innermost dimensions of its use is computed once for them by
    the compiler.
    """
    inline, computed = _inline(graph, leaves)
    nodes = {node.name: node for node in graph.nodes}
    evaluations: dict[str, int] = {}
    """How often a node's elements are computed in all, if nothing more is stored; slices aside."""
    sliced: dict[str, list[int]] = defaultdict(list)
    """The same for each slice of a node: they read at places of their own."""
    users: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.name in live:
            for name in set(operands(node)):
                users[name].append(node)
    costs = _costs(graph, inline)
    names = []
    for node in reversed(graph.nodes):
        if node.name not in live or node.name in leaves or not _is_computed(node):
            continue
        size = math.prod(node.values[0].example)
        in_windows = sum(sliced[node.name])
        times = max(evaluations.get(node.name, 0), in_windows) or size
        name = base_name(node.target)
        costly = node.name in inline and (name in _COSTLY or name in GATHERS)
        overlap = len(sliced[node.name]) >= LEAST_SLICES and in_windows >= TIMES_IN_WINDOWS * size
        saved = (times - size) * costs[node.name] if costly else 0
        if saved >= LEAST_COST * max((TIMES - 1) * size, LEAST_SAVED):
            names.append(_as_read(node, users))
            times = size
        elif overlap and node.name in computed and name not in VIEWS:
            names.append(node.name)
            times = size
        for name in operands(node):
            count = _evaluations_of(nodes[name], node, times)
            if base_name(node.target) == "slice":
                sliced[name].append(count)
            else:
                evaluations[name] = max(evaluations.get(name, 0), count)
    return names


def _inline(graph: Graph, leaves: Set[str]) -> tuple[set[str], set[str]]:
    """Nodes that a kernel computes in place, of inputs alone; and nodes of which such computing is arithmetic."""
    inline: set[str] = set()
    computed: set[str] = set()
    for node in graph.nodes:
        given = node.name in leaves or node.op in ("constant", "size")
        if given or (_is_computed(node) and all(name in inline for name in operands(node))):
            inline.add(node.name)
        makes = is_pointwise(node.target) or any(name in computed for name in operands(node))
        if not given and _is_computed(node) and makes:
            computed.add(node.name)
    return inline, computed


def _costs(graph: Graph, inline: Set[str]) -> dict[str, float]:
    """Instructions for an element of each node that is computed in place, with what it is made of."""
    nodes = {node.name: node for node in graph.nodes}
    costs: dict[str, float] = {}
    for node in graph.nodes:
        if node.name not in inline or not node.values:
            continue
        name, size = base_name(node.target), math.prod(node.values[0].example)
        cost: float = COSTLY.get(name, LEAST_COST if name in _COSTLY or name in GATHERS else 1)
        for operand in set(operands(node)):
            if nodes[operand].op == "call" and size:
                cost += costs.get(operand, 0) * min(1, _evaluations_of(nodes[operand], node, size) / size)
        costs[node.name] = min(cost, _MOST_COST)
    return costs


def _as_read(node: Node, users: Mapping[str, Sequence[Node]]) -> str:
    """``node``, or a copy of it with its elements in another order that alone is read."""
    last = node
    while len(users[node.name]) == 1 and base_name((node := users[node.name][0]).target) in {*VIEWS, "clone"}:
        if base_name(node.target) == "clone" and math.prod(node.values[0].example) == math.prod(last.values[0].example):
            last = node
    return last.name


def _evaluations_of(operand: Node, user: Node, times: int) -> int:
    """How often the elements of ``operand`` are computed where those of ``user`` are, ``times`` in all."""
    if not operand.values or not times:
        return 0
    given, shape = operand.values[0].example, user.values[0].example
    if len(given) < len(operand.values[0].shape) or len(shape) < len(user.values[0].shape):
        return times  # Sizes that depend on data.
    name = base_name(user.target)
    if name in PIECEWISE:
        return times * math.prod(given) // max(1, math.prod(shape))
    if not is_pointwise(user.target) and name != "expand":
        return times
    padded = (1,) * (len(shape) - len(given)) + tuple(given)
    for size, wide in zip(reversed(padded), reversed(shape), strict=True):
        if size != 1:
            break
        times //= wide
    return times


def _is_computed(node: Node) -> bool:
    name = base_name(node.target)
    computed = is_pointwise(node.target) or any(name in group for group in (VIEWS, CREATIONS, PIECEWISE, GATHERS))
    return node.op == "call" and bool(node.values) and computed
