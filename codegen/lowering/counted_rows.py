"""Look-ups of rows 0, 1, 2, … (positions of a sequence), where a table may have fewer rows and eager raises.

Such indices are not in memory, so no kernel checks them: whether the table has enough rows is a condition on sizes.
"""

from collections.abc import Iterator, Mapping

from ...schemas import Graph, Items, Node, Ref
from ..ir.build import index
from ..ir.poly import Poly
from ..ir.printing import python_poly
from ..ir.ranges import below
from .pointwise import base_name
from .views import VIEWS, shape_of, size

_SAME_NUMBERS = VIEWS | {"clone", "alias", "_to_copy", "repeat"}


def counted_rows(graph: Graph) -> list[str]:
    """Conditions under which every row that is counted is there."""
    nodes = {node.name: node for node in graph.nodes}
    guards: dict[str, None] = {}
    for node in graph.nodes:
        for indices, rows in _looked_up(node, nodes):
            last = _most(indices, nodes)
            if last is not None and last.names | rows.names <= graph.symbols.keys() and not below(index(last), rows):
                guards[f"{python_poly(last)} < {python_poly(rows)}"] = None
    return list(guards)


def _looked_up(node: Node, nodes: Mapping[str, Node]) -> Iterator[tuple[Node, Poly]]:
    """Indices of a look-up, and how many rows there are."""
    name, args = base_name(node.target), node.args
    if name == "embedding" and isinstance(args[0], Ref) and isinstance(args[1], Ref):
        yield nodes[args[1].name], shape_of(nodes[args[0].name])[0]
    elif name in ("index_select", "gather") and isinstance(args[0], Ref) and isinstance(args[2], Ref):
        shape = shape_of(nodes[args[0].name])
        if shape and isinstance(args[1], int):
            yield nodes[args[2].name], shape[args[1]]
    elif name in ("index", "_unsafe_index") and isinstance(args[0], Ref) and isinstance(args[1], Items):
        shape = shape_of(nodes[args[0].name])
        for item, rows in zip(args[1].items, shape, strict=False):
            if isinstance(item, Ref):
                yield nodes[item.name], rows


def _most(node: Node, nodes: Mapping[str, Node]) -> Poly | None:
    """What no number of a node is above, where it counts; else None."""
    name = base_name(node.target)
    if name in _SAME_NUMBERS and node.args and isinstance(node.args[0], Ref):
        return _most(nodes[node.args[0].name], nodes)
    if name != "arange" or not node.values or node.values[0].dtype != "int64":
        return None
    try:
        ends = [size(arg) for arg in node.args]
    except ValueError:  # a float
        return None
    step = ends[2].constant if len(ends) > 2 else 1
    if step is None:
        return None
    return (ends[0] if len(ends) == 1 else ends[1]) - 1 if step > 0 else ends[0]
