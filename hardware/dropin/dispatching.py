"""Writes a candidate that takes another candidate for each of several timed shapes. Pure, and free of torch."""

import ast
from collections.abc import Mapping
from pathlib import Path

from ...schemas import InputFact, ProblemFacts, ShapeFacts
from ..sources.native_source import PARTS
from ..sources.parsing import parse
from .finishing import literal

_TEXT = '''"""Several kernels, each for the shapes at which it was the fastest; {otherwise} for all others."""

import linecache
import sys
import types
from typing import Any

import torch

{parts} = {{
{texts}}}

DISPATCH = {{
{table}}}
"""The kernel by the sizes of the tensors among the arguments."""


class NotSupported(NotImplementedError):
    """The kernel for these shapes does not take these inputs."""


{embedded}

_MODULES = {{name: embedded(__name__, "a dispatching kernel", name, text) for name, text in {parts}.items()}}
_KERNELS = {{sizes: _MODULES[name].kernel for sizes, name in DISPATCH.items()}}
_OTHERWISE = _MODULES[{otherwise!r}].kernel
_REFUSALS = tuple(module.NotSupported for module in _MODULES.values() if hasattr(module, "NotSupported"))


{decorator}def kernel(*arguments):
    sizes = tuple([value.shape for value in arguments if isinstance(value, torch.Tensor)])
    try:
        return _KERNELS.get(sizes, _OTHERWISE)(*arguments)
    except _REFUSALS as refused:
        raise NotSupported(str(refused)) from refused
'''


_WITHOUT_GRADIENTS = """# Not every kernel here has gradients: without any, a user gets the reference's at every shape.
@torch.no_grad()
"""


def dispatching(
    facts: ProblemFacts,
    sources: Mapping[str, str],
    kernels: Mapping[str, str],
    otherwise: str,
    *,
    differentiable: bool = False,
) -> str:
    """The text of a candidate that calls ``sources[kernels[shape]]`` at every timed ``shape``.

    Each source is executed as a module of its own. Calls at other shapes go to ``otherwise``, which may refuse them as
    it always does: the drop-in then calls the reference.

    Args:
        facts: What problem validation found.
        sources: Candidate files by name, ``otherwise`` among them.
        kernels: Their names by timed shape.
        otherwise: Name of the one that is the best over all.
        differentiable: Whether autograd differentiates each of them, and rightly.

    Raises:
        ValueError: two timed shapes have tensors of the same sizes, and different kernels.
    """
    table: dict[tuple[tuple[int, ...], ...], str] = {}
    for shape in facts.timed:
        if table.setdefault(sizes_of(shape), kernels[shape.name]) != kernels[shape.name]:
            raise ValueError(f"the tensors of shape {shape.name} have the sizes of another shape's")
    names = sorted({*table.values(), otherwise})
    return _TEXT.format(
        parts=PARTS,
        texts="".join(f"    {name!r}: {literal(sources[name])},\n" for name in names),
        table="".join(f"    {sizes!r}: {name!r},\n" for sizes, name in table.items()),
        otherwise=otherwise,
        embedded=_embedded(),
        decorator="" if differentiable else _WITHOUT_GRADIENTS,
    )


def sizes_of(shape: ShapeFacts) -> tuple[tuple[int, ...], ...]:
    """Sizes of the tensors among the inputs, in order: what calls are told apart by."""
    tensors: list[InputFact] = [fact for fact in shape.inputs if fact.kind == "tensor"]
    return tuple(fact.shape for fact in tensors)


def _embedded() -> str:
    """The function that executes a part as a module, as finished files have it."""
    text = (Path(__file__).parent / "embedded.py").read_text(encoding="utf-8")
    tree = parse(text)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "embedded")
    return str(ast.get_source_segment(text, function))
