"""Parts of a captured graph, by the results that they lead to. Pure: no torch."""

from msgspec import structs

from ...schemas import Graph, Node, ProblemError
from ..machine.work import operands


def last_results(graph: Graph, count: int) -> Graph:
    """What of ``graph`` leads to its last ``count`` results, which it returns as one value or a tuple.

    Raises:
        ProblemError: they need what the operator writes, and would find it written.
    """
    output = graph.nodes[-1]
    end = structs.replace(output, target="", args=output.args[len(output.args) - count :], kwargs={})
    live = _live([*graph.nodes[:-1], end])
    for holder in output.kwargs:
        if holder in live:
            raise ProblemError(f"the gradients need `{holder}`, which the forward pass has changed by then")
    nodes = [node for node in graph.nodes[:-1] if node.op == "input" or node.name in live]
    return structs.replace(graph, nodes=(*nodes, end))


def _live(nodes: list[Node]) -> set[str]:
    live: set[str] = set()
    for node in reversed(nodes):
        # What makes a number of a tensor is needed by name only.
        if node.op == "output" or node.name in live or (node.op == "call" and node.expr):
            live.update((node.name, *operands(node)))
    return live
