"""Whether a captured graph is the reference at other sizes. Pure: no torch."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ...schemas import Graph, InputFact, Node, TensorMeta

Sizes = Mapping[str, Sequence[int] | float]
"""Shapes of the inputs that are tensors, and the numbers among them, by name."""
_FUNCTIONS = {"max": max, "min": min, "abs": abs, "float": float, "int": int, "round": round, "math": math}


def sizes_of(facts: Sequence[InputFact], numbers: Mapping[str, Any]) -> dict[str, Sequence[int] | float]:
    """The sizes at a shape; ``numbers`` are the values of inputs that are no tensors, None where nothing tells them."""
    tensors = {fact.name: fact.shape for fact in facts if fact.kind == "tensor"}
    return {**{name: value for name, value in numbers.items() if value is not None}, **tensors}


def is_for(graph: Graph, sizes: Sizes) -> bool:
    """Whether nothing in ``graph`` speaks against its being the reference at ``sizes``."""
    names = {name: SimpleNamespace(shape=size) if isinstance(size, Sequence) else size for name, size in sizes.items()}
    inputs = [node for node in graph.nodes if node.op == "input" and node.name in sizes]
    return all(_fits(node, sizes[node.name]) for node in inputs) and all(_holds(c, names) for c in graph.decided)


def conditions(graph: Graph, name: Any) -> list[str]:
    """What :func:`is_for` asks, and the kinds of the tensors, as Python text; ``name`` gives an input's variable."""
    texts = []
    for node in graph.nodes:
        if node.op == "input" and node.values:
            meta, tensor = node.values[0], name(node.name)
            texts.append(f"{tensor}.ndim == {len(meta.shape)} and {tensor}.dtype is torch.{meta.dtype}")
            texts += [f"{tensor}.shape[{dim}] == {size}" for dim, size in enumerate(meta.shape) if type(size) is int]
        elif node.op == "input" and node.expr is None and isinstance(node.literal, int | float):
            texts.append(f"{name(node.name)} == {node.literal!r}")
    return [*texts, *(f"({condition})" for condition in graph.decided)]


def _fits(node: Node, size: Any) -> bool:
    if not node.values:
        is_number = node.expr is None and isinstance(node.literal, int | float)
        return not is_number or size == node.literal
    return isinstance(size, Sequence) and _admits(node.values[0], size)


def _admits(meta: TensorMeta, size: Sequence[int]) -> bool:
    if len(size) != len(meta.shape):
        return False
    return all(type(dim) is not int or dim == given for dim, given in zip(meta.shape, size, strict=True))


def _holds(condition: str, names: Mapping[str, Any]) -> bool:
    try:
        return bool(eval(condition, {"__builtins__": {}, **_FUNCTIONS}, dict(names)))
    except (NameError, TypeError, IndexError, AttributeError):
        return True  # It asks for a number that nothing tells.
