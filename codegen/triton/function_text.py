"""The text of a function under ``@triton.jit``, and the sizes that are compiled into it."""

import re
from collections.abc import Iterable

from ..ir.loops import Kernel, buffers_read
from ..ir.poly import Poly
from .prepare import Tile
from .rows import indent
from .scope import pname


def names_fixed(polys: "tuple[Poly, ...] | list[Poly]") -> set[str]:
    """Symbols that are compiled into a kernel."""
    names: set[str] = set()
    for p in polys:
        names |= p.names
    return names


def symbols_of(kernel: Kernel) -> set[str]:
    """Size symbols that a kernel names."""
    names: set[str] = set().union(*(p.names for p in kernel.dims), *(root.names for root in kernel.roots()))
    for store in kernel.stores.values():
        names |= store.offset.names
    if isinstance(kernel, Tile) and kernel.below is not None:
        names |= kernel.below[0].names | kernel.below[1].names
    return {name for name in names if not name.startswith("@") and not re.fullmatch(r"i\d+", name)}


def tensors_of(kernel: Kernel, befores: Iterable[Kernel] = ()) -> tuple[tuple[str, str, str], ...]:
    """Parameter, buffer and dtype of what ``befores`` and ``kernel`` read, and of what this writes."""
    roots = [root for before in befores for root in before.roots()]
    reads = buffers_read([*roots, *kernel.roots()])
    inputs = tuple((f"{pname(name)}_ptr", name, dtype) for name, dtype in reads.items())
    outputs = tuple((f"{pname(s.buffer.name)}_out", s.buffer.name, s.buffer.dtype) for s in kernel.stores.values())
    return (*inputs, *outputs)


def function_text(
    name: str,
    tensors: tuple[tuple[str, str, str], ...],
    numbers: list[tuple[str, str]],
    fixed: set[str],
    body: list[str],
    comment: str,
) -> str:
    """A function under ``@triton.jit``."""
    parameters = [parameter for parameter, _, _ in tensors]
    parameters += [n if n not in fixed and not n[0].isupper() else f"{n}: tl.constexpr" for n, _ in numbers]
    return "\n".join(["@triton.jit", f"def {name}({', '.join(parameters)}):", f"    # {comment}", *indent(body)])
