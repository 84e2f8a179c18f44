"""Rewrites scans over another dimension than the last as scans over rows of a transposed tensor."""

import math
from collections.abc import Collection

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import Graph, Node, Ref
from .calls import in_order, permuted

LEAST_STEPS, MOST_ROWS = 512, 8192
"""Of fewer steps, or of more scans beside each other, reading columns costs more than PyTorch's way to take them: one
thread for each column. That took 98 ms for 128 columns of 262,144 numbers, and 1.2 ms in torch.compile's (H200)."""


def rows_scanned(graph: Graph, scans: Collection[str]) -> Graph:
    """The graph with long ``scans`` over another dimension than the last as scans over the last one."""
    nodes = {node.name: node for node in graph.nodes}
    return structs.replace(graph, nodes=tuple(part for node in graph.nodes for part in _spelled(node, nodes, scans)))


def _spelled(node: Node, nodes: dict[str, Node], scans: Collection[str]) -> list[Node]:
    """The last node has the name and the result of ``node``."""
    if node.target not in scans or not node.values[0].example:
        return [node]
    shape = node.values[0].example
    last, dim = len(shape) - 1, int(node.args[1]) % len(shape)  # type: ignore[arg-type]
    steps = shape[dim]
    if dim == last or steps < LEAST_STEPS or math.prod(shape) > MOST_ROWS * steps:
        return [node]
    source = nodes[next(refs(node.args))]
    order = tuple({dim: last, last: dim}.get(d, d) for d in range(last + 1))
    turned, scanned = f"{node.name}_turned", f"{node.name}_scanned"
    values = (in_order(node.values[0], order),)
    return [
        permuted(turned, source.name, order, in_order(source.values[0], order)),
        structs.replace(node, name=scanned, args=(Ref(name=turned), last), values=values),
        permuted(node.name, scanned, order, node.values[0]),
    ]
