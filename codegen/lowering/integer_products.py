"""Products of short integers through fast library kernels: PyTorch's own ``int32`` products are plain loops."""

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import DType, Graph, Node, Ref
from .calls import call
from .pointwise import base_name
from .views import VIEWS

_LARGEST = {"int8": 128, "uint8": 255, "int16": 1 << 15, "bool": 1}
"""The largest magnitude of a value."""
_RESULTS = {"int32": 31, "int64": 53, "float32": 31, "float64": 31}
"""By dtype of a result: the power of two that no sum reaches, so that nothing wraps around and all of them are exact.
Products in floating point are made by the kernel for ``int8`` alone, whose sums have 32 bits."""


def with_library_products(graph: Graph) -> Graph:
    """The same graph, with products of short integers that were widened first as products of the integers.

    Sums are exact, so results are the same; those of products in floating point are rounded once.
    """
    nodes = {node.name: node for node in graph.nodes}
    guards = dict.fromkeys(graph.guards)
    made: list[Node] = []
    for node in graph.nodes:
        replacement = _replaced(node, nodes, guards)
        made += replacement or [node]
    return structs.replace(graph, nodes=tuple(made), guards=tuple(guards))


def _replaced(node: Node, nodes: dict[str, Node], guards: dict[str, None]) -> list[Node]:
    """What stands for a product; a condition on how long its sums are joins the guards."""
    if base_name(node.target) not in ("mm", "bmm") or node.kwargs or node.values[0].dtype not in _RESULTS:
        return []
    paths = [_path(name, nodes) for name in refs(node.args)]
    if len(paths) != 2 or not all(paths):
        return []
    sources = [path[-1].values[0].dtype for path in paths]
    first, result = nodes[next(refs(node.args))].values[0], node.values[0]
    most, length = _LARGEST[sources[0]] * _LARGEST[sources[1]], first.shape[-1]
    longest = ((1 << _RESULTS[result.dtype]) - 1) // most
    if not first.example or first.example[-1] > longest:
        return []
    is_short = isinstance(length, int) and length * most < 1 << 24
    if base_name(node.target) == "mm" and sources == ["int8", "int8"] and first.example[-1] < 1 << 17:
        target, dtype, sums, longest = "aten._int_mm.default", "int8", "int32", min(longest, (1 << 17) - 1)
    elif result.dtype.startswith("float"):
        return []
    else:
        target, dtype, sums = (node.target, *["float32" if is_short else "float64"] * 2)
    if isinstance(length, str):
        guards[f"{length} <= {longest}"] = None
    operands = [_again(path, f"{node.name}_{side}", dtype) for path, side in zip(paths, "lr", strict=True)]
    args = tuple(Ref(name=operand[-1].name) for operand in operands)
    name = node.name if sums == result.dtype else f"{node.name}_sums"
    new = call(name, target, args, structs.replace(result, dtype=sums, strides=()))
    made = [made for path, operand in zip(paths, operands, strict=True) for made in operand if made is not path[-1]]
    return [*made, new] if name == node.name else [*made, new, _cast(node.name, new, result.dtype)]


def _path(name: str, nodes: dict[str, Node]) -> list[Node]:
    """From ``name`` through views down to what was widened; empty if nothing was."""
    path = [nodes[name]]
    while path[-1].op == "call" and base_name(path[-1].target) in VIEWS and len(list(refs(path[-1].args))) == 1:
        path.append(nodes[next(refs(path[-1].args))])
    if base_name(path[-1].target) != "_to_copy":
        return []
    path[-1] = nodes[next(refs(path[-1].args))]
    return path if path[-1].values[0].dtype in _LARGEST else []


def _again(path: list[Node], name: str, dtype: str) -> list[Node]:
    """The views of ``path`` again, of what was widened, as ``dtype``: the last of the nodes is the operand."""
    below, source = path[-1], path[-1].values[0].dtype
    nodes: list[Node] = []
    if source != dtype:
        nodes.append(_cast(f"{name}_wide", below, dtype))
        below = nodes[-1]
    for number, view in enumerate(path[-2::-1]):
        meta = structs.replace(view.values[0], dtype=dtype, strides=())
        nodes.append(call(f"{name}_{number}", view.target, (Ref(name=below.name), *view.args[1:]), meta))
        below = nodes[-1]
    return nodes or [below]


def _cast(name: str, source: Node, dtype: str) -> Node:
    meta = structs.replace(source.values[0], dtype=dtype, strides=())
    return call(name, "aten._to_copy.default", (Ref(name=source.name),), meta, dtype=DType(name=dtype))
