"""How many bytes the tensors of a captured graph take. Pure: no torch."""

from ....schemas import Graph, Items, Ref, TensorMeta
from ....schemas.graph import Arg
from .sizes import bytes_of


def largest_live_bytes(graph: Graph) -> int:
    """Most bytes of intermediate results that are needed at once, where each is freed after its last use.

    Views count as copies; results whose sizes depend on the data count nothing.
    """
    sizes = {node.name: _size(node.values) for node in graph.nodes if node.op == "call"}
    last = {name: place for place, node in enumerate(graph.nodes) for name in _names(node.args, *node.kwargs.values())}
    live, most = 0, 0
    ending: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        size = sizes.get(node.name, 0)
        live += size
        most = max(most, live)
        ending[last.get(node.name, place)] = ending.get(last.get(node.name, place), 0) + size
        live -= ending.pop(place, 0)
    return most


def result_bytes(graph: Graph) -> int:
    """Bytes of the results that are computed; those whose sizes depend on the data count nothing."""
    output = graph.nodes[-1]
    results = set(_names(output.args, *output.kwargs.values()))
    return sum(_size(node.values) for node in graph.nodes if node.op == "call" and node.name in results)


def _size(metas: tuple[TensorMeta, ...]) -> int:
    return sum(bytes_of(meta.example, meta.dtype) for meta in metas if meta.example)


def _names(args: tuple[Arg, ...], *more: Arg) -> list[str]:
    names = []
    for arg in (*args, *more):
        if isinstance(arg, Ref):
            names.append(arg.name)
        elif isinstance(arg, Items):
            names += _names(arg.items)
    return names
