"""A Triton kernel as the glue sees it: what it is launched with, as Python expressions over the sizes."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....schemas import Graph, ShapeFacts
from .triton_text import POINTERS

HELPERS = """def _cdiv(a, b):
    return -(-a // b)


def _pow2(n):
    return 1 << max(0, (n - 1).bit_length())"""
"""Functions that launches use."""


@dataclass(frozen=True)
class Launch:
    """One ``kernel[grid](...)``."""

    kernel: str
    """Name of the function under ``@triton.jit``."""
    grid: tuple[str, ...]
    tensors: tuple[tuple[str, str, str], ...]
    """Parameter, value of the graph (or scratch buffer), dtype, for every tensor."""
    numbers: tuple[tuple[str, str], ...]
    """Other parameters with Python expressions over the sizes, ``tl.constexpr`` ones included."""
    options: dict[str, str | int] = field(default_factory=dict)
    """``num_warps``, ``num_stages``: numbers, or Python expressions over the sizes."""
    views: dict[str, str] = field(default_factory=dict)
    """Parameters that take a value of the graph as it is, strides and all, instead of a contiguous copy."""
    examples: dict[str, str] = field(default_factory=dict)
    """Numbers that are no expression over the sizes (strides of an operand), as they are at the main shape."""


@dataclass(frozen=True)
class TritonKernel:
    """Text of one kernel and its launch."""

    text: str
    launch: Launch
    outputs: tuple[str, ...]
    """Values of the graph and scratch buffers that it writes."""


def evaluate(expression: str | int, symbols: dict[str, int]) -> Any:
    """A Python expression of a launch at given sizes."""
    if not isinstance(expression, str):
        return expression
    known = {
        "_cdiv": lambda a, b: -(-a // b),
        "_pow2": lambda n: 1 << max(0, (n - 1).bit_length()),
        "max": max,
        "min": min,
        "float": float,
        "int": int,
        "math": math,
    }
    return eval(expression, {"__builtins__": {}}, {**known, **symbols})


def literal(launches: list[Launch], graph: Graph, shapes: Sequence[ShapeFacts] = ()) -> str:
    """``TRITON_LAUNCHES`` at the main shape and at ``shapes``, as far as their sizes are known.

    Launches whose sizes depend on the data are left out.
    """
    main = {name: source.example for name, source in graph.symbols.items()}
    entries: dict[str, None] = {}
    for symbols in (main, *(_sizes_at(shape, graph) for shape in shapes)):
        for launch in launches:
            if symbols is main or not launch.examples:
                entries |= dict.fromkeys(_entry(launch, symbols))
    return "\n".join(["TRITON_LAUNCHES = [", *(f"    {entry}," for entry in entries), "]"])


def _entry(launch: Launch, symbols: dict[str, int]) -> Iterator[str]:
    try:
        numbers: dict[str, Any] = {}
        for name, text in launch.numbers:
            known = launch.examples.get(name, text)
            numbers[name] = evaluate(known, {**symbols, **_integers(numbers)})
        options = {n: evaluate(value, {**symbols, **_integers(numbers)}) for n, value in launch.options.items()}
    except NameError:
        return
    tensors = {name: f"*{POINTERS[dtype]}" for name, _, dtype in launch.tensors}
    yield repr({"kernel": launch.kernel, "arguments": {**tensors, **numbers}, "options": options})


def _sizes_at(shape: ShapeFacts, graph: Graph) -> dict[str, int]:
    """Values of the symbols that are sizes of the inputs at ``shape``; what an input gives as a number is not known."""
    inputs = {fact.name: fact.shape for fact in shape.inputs}
    return {
        name: inputs[source.input][source.dim]
        for name, source in graph.symbols.items()
        if 0 <= source.dim < len(inputs.get(source.input, ()))
    }


def _integers(numbers: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in numbers.items() if name.isupper() and type(value) is int}


def symbols_in(text: str) -> set[str]:
    """Size symbols that an expression names."""
    return set(re.findall(r"\b[su]\d+\b", text))
