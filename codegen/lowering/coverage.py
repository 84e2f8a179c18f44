"""Whether a captured graph computes all of the reference: its side effects, and its results at every named shape."""

import ast
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ...hardware.capture.sizes import Sizes, is_for, sizes_of
from ...schemas import Graph, InputFact, Items, Node, ProblemFacts, ShapeFacts


def why_left(facts: ProblemFacts) -> str:
    """Why no file can be generated for the operator, as a sentence; empty if one can."""
    if facts.graph is None:
        return f"the operator could not be captured: {facts.capture_error or 'no graph'}"
    return next(_reasons(facts, facts.graph), "")


def why_nothing(graph: Graph) -> str:
    """Why a graph has nothing to generate."""
    if any(meta.dtype.startswith("complex") for node in graph.nodes for meta in node.values):
        return "complex tensors are left to PyTorch: nothing else to fuse"
    return "nothing to fuse: every operator is left to PyTorch"


def _reasons(facts: ProblemFacts, graph: Graph) -> Iterator[str]:
    yield from _unwritten(facts, graph)
    graphs = [graph] if facts.backward_graph is None else [graph, facts.backward_graph]
    for shape in facts.shapes:
        if any(is_for(other, _sizes(shape)) for other in elsewhere(facts, graph)):
            continue
        for pass_graph in graphs:
            yield from _not_covered(pass_graph, shape)


def elsewhere(facts: ProblemFacts, graph: Graph) -> list[Graph]:
    """What a candidate for ``graph`` computes at sizes at which the reference is another operator."""
    weights = {node.target for node in graph.nodes if node.op == "param"}
    return [
        other
        for other in facts.graphs_elsewhere
        if all(node.target in weights for node in other.nodes if node.op == "param")
    ]


def _sizes(shape: ShapeFacts) -> Sizes:
    return sizes_of(shape.inputs, {fact.name: _number(fact) for fact in shape.inputs})


def _unwritten(facts: ProblemFacts, graph: Graph) -> Iterator[str]:
    """What the reference changes and the graph does not."""
    written = {name for node in graph.nodes if node.name in graph.nodes[-1].kwargs for name in _names(node)}
    for fact in facts.state:
        if fact.name in written:
            continue
        if fact.kind == "attribute":
            yield f"the reference changes `{fact.name}`, no parameter or buffer, which generated kernels cannot write"
        else:
            yield f"the reference changes `{fact.name}` in a way that the captured graph does not show"


def _names(node: Node) -> tuple[str, ...]:
    """What a call of the reference writes if it writes this node."""
    others = node.literal.items if node.op == "param" and isinstance(node.literal, Items) else ()
    return (node.target or node.name, *map(str, others))


def _not_covered(graph: Graph, shape: ShapeFacts) -> Iterator[str]:
    inputs = {fact.name: fact for fact in shape.inputs}
    where = f"at shape {shape.name!r}"
    for node in graph.nodes:
        fact = inputs.get(node.name)
        if node.op == "input" and fact is not None:
            yield from (f"{where} {text}" for text in _other_kind(node, fact))
    names = {name: _value(fact) for name, fact in inputs.items()}
    for condition in graph.decided:
        if _fails(condition, names):
            yield f"the reference branches on sizes, and goes another way {where} (`{condition}` does not hold there)"


def _other_kind(node: Node, fact: InputFact) -> Iterator[str]:
    if fact.kind == "tensor" and node.values:
        meta = node.values[0]
        if len(fact.shape) != len(meta.shape) or fact.dtype != meta.dtype:
            captured = f"{len(meta.shape)} of {meta.dtype}"
            yield f"`{node.name}` has {len(fact.shape)} dimensions of {fact.dtype}, at the first shape {captured}"
    is_fixed = not node.values and node.expr is None and isinstance(node.literal, int | float)
    number = _number(fact) if is_fixed else None
    if number is not None and number != node.literal:
        yield f"`{node.name}` is {number}, at the first shape {node.literal}: one file is for one value"


def _value(fact: InputFact) -> Any:
    return SimpleNamespace(shape=fact.shape) if fact.kind == "tensor" else _number(fact)


def _number(fact: InputFact) -> Any:
    """The value of an argument that is a number; None where the facts do not tell."""
    try:
        return ast.literal_eval(fact.literal) if fact.kind in ("int", "float", "bool") else None
    except (SyntaxError, ValueError):
        return None


def _fails(condition: str, names: dict[str, Any]) -> bool:
    """Whether a condition on the inputs is known not to hold."""
    try:
        return not eval(condition, {"__builtins__": {}, "math": math, **_FUNCTIONS}, names)
    except (NameError, TypeError, IndexError, AttributeError):
        return False  # It asks for a number that older events do not tell.


_FUNCTIONS = {"max": max, "min": min, "abs": abs, "float": float, "int": int, "round": round}
