"""Leaves attention to the library on a GPU: replaces the CPU operator that was captured in main memory."""

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import Graph, Node, Ref

_CALL = "aten._scaled_dot_product_flash_attention_for_cpu.default"
_PLACES = ("dropout_p", "is_causal")
"""What the operator of main memory takes behind queries, keys and values."""
_TARGET = "aten.scaled_dot_product_attention.default"


def library_attention(graph: Graph) -> Graph:
    """The graph with the operator that every device has; it chooses the kernel by what it is given."""
    nodes = {node.name: node for node in graph.nodes}
    read = {node.args[0].name for node in graph.nodes if _result(node, nodes) and isinstance(node.args[0], Ref)}
    other = {name for node in graph.nodes if not _result(node, nodes) for name in refs(node.args)}
    replaced = {name for name in read - other if nodes[name].target == _CALL}
    new_nodes = [
        _library(node, nodes[node.args[0].name])
        if _result(node, nodes) and isinstance(node.args[0], Ref) and node.args[0].name in replaced
        else node
        for node in graph.nodes
        if node.name not in replaced
    ]
    return structs.replace(graph, nodes=tuple(new_nodes))


def _result(node: Node, nodes: dict[str, Node]) -> bool:
    """Whether it is the first result of attention, and not the sums beside it."""
    if node.target != "operator.getitem" or not isinstance(node.args[0], Ref) or node.args[1] != 0:
        return False
    return nodes[node.args[0].name].target == _CALL


def _library(result: Node, call: Node) -> Node:
    given = dict(zip(_PLACES, call.args[3:], strict=False)) | dict(call.kwargs)
    args = (*call.args[:3], given.get("attn_mask"), given.get("dropout_p", 0.0), given.get("is_causal", False))
    kwargs = {"scale": given["scale"]} if given.get("scale") is not None else {}
    return Node(name=result.name, op="call", target=_TARGET, args=args, kwargs=kwargs, values=result.values)
