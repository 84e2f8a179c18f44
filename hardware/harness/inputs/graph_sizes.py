"""How many bytes the tensors of a captured graph take. Pure: no torch."""

from collections.abc import Callable, Sequence

from ....schemas import Graph, Items, Ref, TensorMeta
from ....schemas.graph import Arg
from .sizes import bytes_of

SizeOf = Callable[[Sequence[int], str], int]


def largest_live_bytes(graph: Graph, size_of: SizeOf = bytes_of) -> int:
    """Most bytes of intermediate results that are needed at once, where each is freed after its last use.

    Views count as copies; results whose sizes depend on the data count nothing. ``size_of`` gives the bytes of a tensor
    by shape and dtype.
    """
    sizes = {
        node.name: sum(size_of(*form) for form in _forms(node.values)) for node in graph.nodes if node.op == "call"
    }
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


def results_of(graph: Graph) -> list[tuple[Sequence[int], str]]:
    """Shape and dtype of the results that are computed, but of those whose sizes depend on the data."""
    output = graph.nodes[-1]
    names = set(_names(output.args, *output.kwargs.values()))
    computed = (node for node in graph.nodes if node.op == "call" and node.name in names)
    return [form for node in computed for form in _forms(node.values)]


def _forms(metas: tuple[TensorMeta, ...]) -> list[tuple[Sequence[int], str]]:
    return [(meta.example, meta.dtype) for meta in metas if meta.example]


def _names(args: tuple[Arg, ...], *more: Arg) -> list[str]:
    names = []
    for arg in (*args, *more):
        if isinstance(arg, Ref):
            names.append(arg.name)
        elif isinstance(arg, Items):
            names += _names(arg.items)
    return names
