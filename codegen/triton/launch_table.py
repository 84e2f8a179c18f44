"""Writes ``TRITON_LAUNCHES``, and the code with which a candidate finds out whether a launch is in it.

Where a candidate runs, nothing may be compiled: sizes for which Triton would compile a kernel anew go to PyTorch.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...schemas import Graph, ShapeFacts
from ..ir.common_subexpressions import name_repeated
from .launch import Launch, TritonKernel, evaluate, symbols_in
from .text import POINTERS

MOST_LISTED = 64
"""Compiled for further shapes only while there are no more: each takes the compiler a third of a second."""
_ANY = 17
"""Stands for a size that depends on the data."""


class LaunchTable:
    """The launches of a candidate at the sizes that are known beforehand."""

    def __init__(
        self,
        kernels: Sequence[TritonKernel],
        graph: Graph,
        shapes: Sequence[ShapeFacts] = (),
        suffix: str = "",
        most: int = MOST_LISTED,
    ) -> None:
        """``graph`` says the main shape; of ``shapes``, those are taken whose launches a list of ``most`` has room for.

        The names of its functions end with ``suffix``.
        """
        self.kernels = kernels
        self.suffix = suffix
        self.symbols = list(graph.symbols)
        main = {name: source.example for name, source in graph.symbols.items()}
        self.sizes: list[dict[str, int]] = []
        self.entries: dict[Any, dict[str, Any]] = {}
        for symbols in (main, *(main | sizes_at(shape, graph) for shape in shapes)):
            more = dict(self._entries(symbols)) if all(symbols.values()) and symbols not in self.sizes else {}
            if more and (not self.sizes or len(self.entries.keys() | more.keys()) <= most):
                self.sizes.append(symbols)
                self.entries |= {key: entry for key, entry in more.items() if key not in self.entries}

    def _entries(self, symbols: dict[str, int]) -> Iterator[tuple[Any, dict[str, Any]]]:
        for kernel in self.kernels:
            fixed, launch = kernel.compiled_in(), kernel.launch
            numbers: dict[str, Any] = {}
            data = dict.fromkeys(set().union(*(symbols_in(t) for _, t in launch.numbers)) - symbols.keys(), _ANY)
            for name, text in launch.numbers:
                numbers[name] = evaluate(text, {**data, **symbols, **_integers(numbers)})
            options = {n: evaluate(value, {**symbols, **_integers(numbers)}) for n, value in launch.options.items()}
            shifts = {n for n, text in launch.shifts() if evaluate(text, symbols)}
            tensors = {n: f"*{POINTERS[t]}{' unaligned' if n in shifts else ''}" for n, _, t in launch.tensors}
            entry = {"kernel": launch.kernel, "arguments": {**tensors, **numbers}, "options": options}
            kinds = {n: v if n in fixed else _kind(v) for n, v in numbers.items() if n in fixed or type(v) is int}
            yield repr((launch.kernel, tensors, kinds, options)), entry

    def condition(self) -> str:
        """What must hold of the sizes."""
        return f"_listed{self.suffix}({', '.join(self.symbols)})"

    def functions(self, conditions: Sequence[str]) -> str:
        """``_listed``, which also asks for ``conditions`` on the sizes, and what it needs."""
        arguments, end = ", ".join(self.symbols), self.suffix
        upper = end.upper()
        keys = dict.fromkeys(f"        {self._key(kernel)}," for kernel in self.kernels)
        compiled = f"_keys{end}({arguments}) <= _COMPILED{upper}"
        size_conditions = [c for c in conditions if symbols_in(c) <= set(self.symbols)]
        sizes = [f"    ({''.join(f'{symbols[name]}, ' for name in self.symbols)})," for symbols in self.sizes]
        launched = [
            "@functools.lru_cache(maxsize=256)",
            f"def _launched{end}({', '.join(['device', *self.symbols])}):",
            '    """What was launched for these sizes, by place in the call."""',
            "    return {}",
        ]
        keys_text = "\n".join(
            [
                f"def _keys{end}({arguments}):",
                '    """For these sizes, what each kernel is compiled for."""',
                *(["    return {", *keys, "    }"] if keys else ["    return set()"]),
            ]
        )
        listed_text = "\n".join(
            [
                "@functools.lru_cache(maxsize=1024)",
                f"def _listed{end}({arguments}):",
                '    """Whether the kernels are right for these sizes, and compiled for them."""',
                f"    return {' and '.join([*(f'({c})' for c in size_conditions), compiled])}",
            ]
        )
        return "\n".join(
            [
                name_repeated(keys_text, sizes_only=True),
                "",
                "",
                f"_SIZES{upper} = [",
                *sizes,
                "]",
                f"_COMPILED{upper} = set().union(*(_keys{end}(*sizes) for sizes in _SIZES{upper}))",
                "",
                "",
                name_repeated(listed_text, sizes_only=True),
                "",
                "",
                *launched,
            ]
        )

    def _key(self, kernel: TritonKernel) -> str:
        launch, fixed = kernel.launch, kernel.compiled_in()
        parts = [repr(launch.kernel), *(text for _, text in launch.shifts())]
        for name, text in launch.numbers:
            # What depends on the data is no part of what a kernel is compiled for; see settled().
            if symbols_in(text) - set(self.symbols):
                continue
            parts.append(text if name in fixed else f"_kind({text})")
        parts += [value for value in launch.options.values() if isinstance(value, str)]
        return f"({', '.join(_spelled(part, launch) for part in parts)},)"


def launches_literal(tables: Sequence[LaunchTable]) -> str:
    """``TRITON_LAUNCHES``: an entry for each launch that is compiled."""
    entries = [entry for table in tables for entry in table.entries.values()]
    return "\n".join(["TRITON_LAUNCHES = [", *(f"    {entry!r}," for entry in entries), "]"])


KIND = '''def _kind(n):
    """For which integers Triton compiles kernels of their own: 1, multiples of 16, and those of 64 bits."""
    return n == 1, n % 16 == 0, not -(2**31) <= n < 2**31'''


def _kind(n: int) -> tuple[bool, bool, bool]:
    return n == 1, n % 16 == 0, not -(2**31) <= n < 2**31


def _spelled(text: str, launch: Launch) -> str:
    """An expression without the constant that the launches name in others."""
    block = dict(launch.numbers).get("BLOCK", "")
    return re.sub(r"\bBLOCK\b", lambda _: f"({block})", text)


def sizes_at(shape: ShapeFacts, graph: Graph) -> dict[str, int]:
    """Values of the symbols that are sizes of the inputs at ``shape``; what an input gives as a number is not known."""
    inputs = {fact.name: fact.shape for fact in shape.inputs}
    sizes = {
        name: inputs[source.input][source.dim]
        for name, source in graph.symbols.items()
        if 0 <= source.dim < len(inputs.get(source.input, ()))
    }
    for name, source in graph.symbols.items():
        if source.expr and symbols_in(source.expr) <= sizes.keys():
            sizes[name] = int(evaluate(source.expr, sizes))
    return sizes


def _integers(numbers: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in numbers.items() if name.isupper() and type(value) is int}
