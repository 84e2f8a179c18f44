"""Merges kernels that are equal except for names into one function, so that equal layers are compiled once."""

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ...hardware.sources.parsing import parse
from .launch import TritonKernel
from .source import TritonLibrary

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def share_repeated(libraries: Sequence[TritonLibrary]) -> tuple[TritonLibrary, ...]:
    """The libraries of one file, in which a kernel that repeats an earlier one launches that one's function."""
    firsts: dict[str, list[_Function]] = {}
    """By their outlines."""

    def shared(kernel: TritonKernel) -> TritonKernel:
        function = _Function(kernel)
        alike = firsts.setdefault(function.outline, [])
        for first in alike:
            if first.is_repeated_by(function):
                return first.launched_as(function)
        alike.append(function)
        return kernel

    return tuple(
        replace(
            library,
            # In the order in which they are printed.
            replaced={name: [shared(kernel) for kernel in kernels] for name, kernels in library.replaced.items()},
            kernels={name: [shared(kernel) for kernel in kernels] for name, kernels in library.kernels.items()},
        )
        for library in libraries
    )


class _Function:
    """A kernel, apart from its names."""

    def __init__(self, kernel: TritonKernel) -> None:
        numbers: dict[str, str] = {}
        self.kernel = kernel
        self.outline = _NAME.sub(lambda name: numbers.setdefault(name[0], f"@{len(numbers)}"), kernel.text)
        """Its text with a number in the place of every name: functions that repeat each other have the same."""
        self.names = tuple(numbers)
        """By their numbers."""

    def is_repeated_by(self, other: "_Function") -> bool:
        """Whether only names differ that functions declare themselves; both have the same outline."""
        return all(
            mine == theirs or mine in self._declared for mine, theirs in zip(self.names, other.names, strict=True)
        )

    def launched_as(self, other: "_Function") -> TritonKernel:
        """``other``'s kernel with this function, whose parameters get what ``other``'s got."""
        names = dict(zip(other.names, self.names, strict=True))
        launch = other.kernel.launch
        launch = replace(
            launch,
            kernel=self.kernel.launch.kernel,
            tensors=tuple((names[parameter], value, dtype) for parameter, value, dtype in launch.tensors),
            numbers=tuple((names[parameter], text) for parameter, text in launch.numbers),
            layouts={names[parameter]: layout for parameter, layout in launch.layouts.items()},
        )
        return replace(other.kernel, text=self.kernel.text, launch=launch)

    @cached_property
    def _declared(self) -> frozenset[str]:
        """Names of functions, parameters and variables."""
        nodes = list(ast.walk(parse(self.kernel.text)))
        functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        parameters = {node.arg for node in nodes if isinstance(node, ast.arg)}
        variables = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        return frozenset(functions | parameters | variables)
