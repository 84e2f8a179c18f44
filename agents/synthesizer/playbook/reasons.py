"""Why there is no candidate for an operator, in a sentence that its author can act on."""

from ....schemas import Graph, Node, ProblemFacts, Ref

MOST_NAMES = 4
"""Operators that a sentence names."""


def nothing_to_generate(facts: ProblemFacts, graph: Graph) -> str:
    """Why every operator of ``graph`` is left to PyTorch."""
    if _hides_outputs(facts, graph):
        return (
            "the reference returns its tensors in a dictionary or a nested container, and kernels are generated for a "
            "tensor or a flat tuple of tensors: return those"
        )
    calls = [node for node in graph.nodes if node.op == "call" and node.target.startswith("aten.")]
    if any(meta.dtype.startswith("complex") for node in calls for meta in node.values):
        return f"it computes complex numbers ({_named(calls)}), for which no kernels are generated"
    if not calls:
        return "the reference computes nothing: its outputs are its inputs, or constants"
    return f"nothing to fuse: {_named(calls)} {'is' if len(_names(calls)) == 1 else 'are'} left to PyTorch's library"


def too_deep(graph: Graph) -> str:
    """Why a graph on whose chains of operations the generator's recursion ends has no candidate."""
    calls = sum(node.op == "call" for node in graph.nodes)
    return (
        f"the captured graph chains {calls} operations, more than code can be generated for; a loop is captured step "
        "by step: give it fewer steps"
    )


def _hides_outputs(facts: ProblemFacts, graph: Graph) -> bool:
    arguments = [argument for node in graph.nodes if node.op == "output" for argument in node.args]
    tensors = [fact for shape in facts.shapes[:1] for fact in shape.outputs if fact.kind == "tensor"]
    return sum(isinstance(argument, Ref) for argument in arguments) < len(tensors)


def _named(calls: list[Node]) -> str:
    names = _names(calls)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _names(calls: list[Node]) -> list[str]:
    return list(dict.fromkeys(node.target.split(".")[1] for node in calls))
