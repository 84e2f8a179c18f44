"""Kernels that repeat each other but for names are one function: a graph's equal layers are compiled once."""

import ast
from collections.abc import Sequence
from dataclasses import replace

from ...hardware.sources.parsing import parse
from ..ir.printing import nameless
from .launch import TritonKernel
from .source import TritonLibrary


def share_repeated(libraries: Sequence[TritonLibrary]) -> tuple[TritonLibrary, ...]:
    """The libraries of one file, in which a kernel that repeats an earlier one launches that one's function."""
    firsts: dict[str, TritonKernel] = {}
    """By what they say without names."""

    def shared(kernel: TritonKernel) -> TritonKernel:
        first = firsts.setdefault(nameless(kernel.text, _declared(kernel.text)), kernel)
        return kernel if first is kernel else _launching(first, kernel)

    return tuple(
        replace(
            library,
            # In the order in which they are printed.
            replaced={name: [shared(kernel) for kernel in kernels] for name, kernels in library.replaced.items()},
            kernels={name: [shared(kernel) for kernel in kernels] for name, kernels in library.kernels.items()},
        )
        for library in libraries
    )


def _launching(first: TritonKernel, kernel: TritonKernel) -> TritonKernel:
    """``kernel`` with ``first``'s function, whose parameters get what ``kernel``'s got."""
    names = dict(zip(_parameters(kernel), _parameters(first), strict=True))
    launch = replace(
        kernel.launch,
        kernel=first.launch.kernel,
        tensors=tuple((names[parameter], value, dtype) for parameter, value, dtype in kernel.launch.tensors),
        numbers=tuple((names[parameter], text) for parameter, text in kernel.launch.numbers),
        layouts={names[parameter]: layout for parameter, layout in kernel.launch.layouts.items()},
    )
    return replace(kernel, text=first.text, launch=launch)


def _parameters(kernel: TritonKernel) -> list[str]:
    functions = [part for part in parse(kernel.text).body if isinstance(part, ast.FunctionDef)]
    (launched,) = (function for function in functions if function.name == kernel.launch.kernel)
    return [argument.arg for argument in launched.args.args]


def _declared(text: str) -> list[str]:
    """Names of functions, parameters and variables, as they stand in ``text``."""
    places: list[tuple[int, int, str]] = []
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.FunctionDef):
            places.append((node.lineno, node.col_offset, node.name))
        elif isinstance(node, ast.arg):
            places.append((node.lineno, node.col_offset, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            places.append((node.lineno, node.col_offset, node.id))
    return [name for _, _, name in sorted(places)]
