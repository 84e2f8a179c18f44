"""The text of a function under ``@triton.jit``, and the sizes that are compiled into it."""

import re

from ..ir.loops import Kernel
from ..ir.poly import Poly
from .prepare import Tile
from .rows import indent


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
