"""Rewrites ``max`` and ``min`` over a dimension (values and positions) as one reduction for each result."""

from msgspec import structs

from ...schemas import Graph, Items, Node

_PARTS = {"aten.max.dim": ("amax", "argmax"), "aten.min.dim": ("amin", "argmin")}


def spell_extremes(graph: Graph) -> Graph:
    """The graph with what is taken of an extreme, its value or its position, as a reduction of its own."""
    extremes = {node.name: node for node in graph.nodes if node.target in _PARTS}
    nodes = [_part(node, extremes) or node for node in graph.nodes]
    return Graph(nodes=tuple(nodes), symbols=graph.symbols, guards=graph.guards)


def _part(node: Node, extremes: dict[str, Node]) -> Node | None:
    if node.target != "operator.getitem":
        return None
    extreme = extremes.get(getattr(node.args[0], "name", ""))
    item = node.args[1]
    if extreme is None or not isinstance(item, int):
        return None
    source, *rest = extreme.args
    dim = rest[0] if rest else extreme.kwargs.get("dim")
    keep = rest[1] if len(rest) > 1 else extreme.kwargs.get("keepdim", False)
    target = f"aten.{_PARTS[extreme.target][item]}.default"
    over = dim if item else Items(items=(dim,))
    return structs.replace(node, target=target, args=(source, over, keep))
