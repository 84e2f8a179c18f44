"""What a GPU stores: values that windows read where they overlap, and results of windows and concatenations that
several passes read.

On an H100 a network's depthwise convolution took 5 ms in each of the three passes of the norm behind it, which computed
the norm before it nine times for every element; stored, each of them is a plain pass through memory.
"""

import math
from collections import defaultdict
from collections.abc import Set

from ...hardware.machine.work import operands, refs
from ...schemas import Graph, Node
from .lower import PIECEWISE
from .pointwise import base_name, is_pointwise
from .reductions import describe, is_reduction
from .repeated import LEAST_SLICES, TIMES_IN_WINDOWS
from .views import VIEWS

LEAST_PARTS = 2
"""Of a concatenation."""
LEAST_WORK = 3
"""Operators, or parts that are chosen from, that a value takes: a bias and a ReLU cost less than a way through memory.
AlexNet, whose pools overlap, took 14.5 ms with them stored and 13.2 without (H100, batch of 1,024)."""
LONGEST_ROW = 1 << 15
"""Elements of the last dimensions that a reduction's program holds: it reads them once."""


def read_again(graph: Graph, live: Set[str], leaves: Set[str]) -> set[str]:
    """Names of what is stored, so that whoever reads it waits for it."""
    nodes = {node.name: node for node in graph.nodes}
    overlapping = _overlapping(graph, nodes, live)
    stored: set[str] = set()
    work: dict[str, int] = {}
    """Operators by which an element of a node is computed where it is read."""
    parts: dict[str, frozenset[str]] = {}
    """Elements of windows, and parts of concatenations, that one of its elements is made of."""
    for node in graph.nodes:
        if node.name not in live:
            continue
        read = [name for name in operands(node) if name in work]
        if node.name in leaves or is_reduction(node) or not _is_inline(node):
            work[node.name], parts[node.name] = 0, frozenset()
            if is_reduction(node) and _has_passes(node, nodes):
                stored |= _end_of_parts(nodes[read[0]], nodes, parts, leaves)
            continue
        is_choice = base_name(node.target) == "cat"
        work[node.name] = sum(work[name] for name in set(read)) + (
            len(read) if is_choice else is_pointwise(node.target)
        )
        parts[node.name] = frozenset(read) if is_choice else frozenset().union(*(parts[name] for name in read))
        if node.name in overlapping:
            parts[node.name] = frozenset()
            if work[node.name] >= LEAST_WORK:
                stored.add(node.name)
                work[node.name] = 0
        if base_name(node.target) == "slice" and _source(node, nodes).name in overlapping:
            parts[node.name] = frozenset({node.name})
    return stored


def _overlapping(graph: Graph, nodes: dict[str, Node], live: Set[str]) -> set[str]:
    """Values that windows read, each of their elements several times."""
    sliced_again = {name for node in graph.nodes if base_name(node.target) == "slice" for name in operands(node)}
    taps: dict[str, list[int]] = defaultdict(list)
    for node in graph.nodes:
        if node.name in live and base_name(node.target) == "slice" and node.name not in sliced_again:
            taps[_source(node, nodes).name].append(_size(node))
    return {
        name
        for name, sizes in taps.items()
        if len(sizes) >= LEAST_SLICES and sum(sizes) >= TIMES_IN_WINDOWS * _size(nodes[name])
    }


def _source(node: Node, nodes: dict[str, Node]) -> Node:
    """What a slice shows, without the slices and the padding between."""
    while base_name(node.target) in ("slice", "constant_pad_nd") and (read := list(operands(node))):
        node = nodes[read[0]]
    return node


def _end_of_parts(node: Node, nodes: dict[str, Node], parts: dict[str, frozenset[str]], leaves: Set[str]) -> set[str]:
    """The first node that is made of all that ``node`` is made of; what follows takes one element of it each."""
    made_of = parts[node.name]
    while base_name(node.target) != "cat" and (below := [n for n in operands(node) if parts.get(n) == made_of]):
        node = nodes[below[0]]
    least = LEAST_PARTS if base_name(node.target) == "cat" else LEAST_SLICES
    if len(made_of) < least or node.name in leaves or base_name(node.target) in VIEWS:
        return set()
    parts[node.name] = frozenset()
    return {node.name}


def _has_passes(node: Node, nodes: dict[str, Node]) -> bool:
    """Whether a reduction is more than rows at the end of memory, which a program holds."""
    source = nodes[next(refs(node.args))]
    dims, shape = describe(node, source).dims, source.values[0].example
    last = sorted(dims) == list(range(len(shape) - len(dims), len(shape)))
    return not last or math.prod(shape[dim] for dim in dims) > LONGEST_ROW


def _is_inline(node: Node) -> bool:
    name = base_name(node.target)
    return node.op == "call" and len(node.values) == 1 and (is_pointwise(node.target) or name in {*VIEWS, *PIECEWISE})


def _size(node: Node) -> int:
    return math.prod(node.values[0].example)
