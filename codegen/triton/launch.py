"""A Triton kernel as the host wrapper launches it: grid and arguments, as Python expressions over the sizes."""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from ..ir.printing import python_poly
from .layout import Layout

HELPERS = """def _cdiv(a, b):
    return -(-a // b)


def _pow2(n):
    return 1 << max(0, (n - 1).bit_length())


def _fit(x, strides=None):
    \"\"\"``x`` where the kernels can read it: from a multiple of 16 bytes on, contiguous or with ``strides``.\"\"\"
    if strides is None:
        fits = x.is_contiguous() and not x.data_ptr() & 15
        return x if fits else x.clone(memory_format=torch.contiguous_format)
    if not x.data_ptr() & 15 and all(n == 1 or a == b for n, a, b in zip(x.shape, x.stride(), strides)):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def _launch(launched, place, kernel, grid, options, *arguments):
    \"\"\"Launch ``kernel``: what Triton compiled of it for these sizes is kept under ``place``.\"\"\"
    compiled = launched.get(place)
    if compiled is None:
        launched[place] = kernel[grid](*arguments, **options)
    else:
        compiled[grid](*arguments)"""
"""Functions that launches use."""

_NAMES = {
    "_cdiv": lambda a, b: -(-a // b),
    "_pow2": lambda n: 1 << max(0, (n - 1).bit_length()),
    "max": max,
    "min": min,
    "abs": abs,
    "round": round,
    "float": float,
    "int": int,
    "math": math,
    # What PyTorch has for numbers that may be symbols, which here they are not.
    "torch": SimpleNamespace(sym_float=float, sym_int=int, sym_max=max, sym_min=min, sym_sqrt=math.sqrt),
}
MOST_ELEMENTS = 2**31 - 2**16
"""From so many on indices need 64 bits: a program's last block may reach beyond the last element."""
_LOOSE = {"EVEN": "False", "EVEN_K": "False", "WIDE": "True"}
"""Constants that are right for any size."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Of an element, for types that kernels take in place or hand on to each other."""


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
    layouts: dict[str, Layout] = field(default_factory=dict)
    """Parameters that take a value of the graph in place, strides and all, instead of contiguous."""

    def symbols(self) -> set[str]:
        """What decides which of a kernel's compiled forms is launched."""
        offsets = [python_poly(layout.offset) for layout in self.layouts.values()]
        return set().union(*map(symbols_in, (*dict(self.numbers).values(), *self.options.values(), *offsets)))

    def shifts(self) -> Iterator[tuple[str, str]]:
        """Parameters that may begin between multiples of 16 bytes, and how many bytes behind one, as expressions."""
        for parameter, _, dtype in self.tensors:
            layout = self.layouts.get(parameter)
            if layout is not None and layout.offset.terms:
                yield parameter, f"({python_poly(layout.offset)}) * {BYTES[dtype]} % 16"


@dataclass(frozen=True)
class TritonKernel:
    """Text of one kernel and its launch."""

    text: str
    launch: Launch
    outputs: tuple[str, ...]
    """Values of the graph and scratch buffers that it writes."""

    def compiled_in(self) -> set[str]:
        """Parameters that are ``tl.constexpr``."""
        return set(re.findall(r"(\w+): tl\.constexpr", self._signature))

    def parameters(self) -> list[str]:
        """Names of all parameters, in order."""
        return re.findall(r"(?:^|,)\s*(\w+)", self._signature)

    @property
    def _signature(self) -> str:
        return self.text.partition(f"def {self.launch.kernel}(")[2].partition("):\n")[0]


def evaluate(expression: str | int, symbols: dict[str, int]) -> Any:
    """A Python expression of a launch at given sizes."""
    if not isinstance(expression, str):
        return expression
    return eval(expression, {"__builtins__": {}}, {**_NAMES, **symbols})


def symbols_in(text: str | int) -> set[str]:
    """Size symbols that an expression names."""
    return set(re.findall(r"\b[su]\d+\b", str(text)))


def settled(kernel: TritonKernel, symbols: Collection[str]) -> TritonKernel:
    """The kernel with nothing compiled into it that depends on the data: then one launch is right for all sizes.

    Args:
        kernel: as it was written.
        symbols: symbols that can be read from the inputs.
    """
    launch = kernel.launch
    loose = [name for name, text in launch.numbers if symbols_in(text) - set(symbols)]
    if not loose:
        return kernel
    numbers = tuple((n, _LOOSE.get(n, text) if n in loose else text) for n, text in launch.numbers)
    left = [name for name in loose if name not in _LOOSE]
    text = kernel.text
    for name in left:
        text = re.sub(rf"\b{name}: tl\.constexpr", name, text)
    head = f"@triton.jit\ndef {launch.kernel}("
    text = text.replace(head, head.replace("jit", f"jit(do_not_specialize={left!r})"))
    return replace(kernel, text=text, launch=replace(launch, numbers=numbers))
