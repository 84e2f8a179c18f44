"""The C++ file of a candidate: one function for each kernel, and how the host wrapper calls it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...schemas import Node
from ..ir.loops import Buffer, Kernel, SpecialKernel, SteppedKernel, buffers_read
from ..ir.poly import Poly, product
from ..ir.printing import nameless
from ..ir.scalar import Scalar
from ..ir.tunables import Settings
from ..lowering.in_place import overwritten
from ..lowering.online import deciding_exponentials
from ..lowering.plan import Plan, operators_in
from .lookup import snippet as lookup_snippet
from .math import snippet
from .passes_types import indent
from .prelude import prelude
from .rows import kernel_body
from .scope import cname
from .special import special_functions
from .text import STORED, Needs, index_text, quotient_text

AnyKernel = Kernel | SpecialKernel
_DECLARED = re.compile(r"\b(?:float|double|bool|auto|int|u?int\d+_t)\b[*&]*(?: __restrict)? ([A-Za-z_]\w*)")
"""A parameter or variable of a generated function, behind its type."""


@dataclass(frozen=True)
class Function:
    """A C++ function as the host wrapper sees it: everything it is called with, in order."""

    name: str
    inputs: tuple[str, ...]
    """Buffers that it reads."""
    outputs: tuple[str, ...]
    """Buffers that it writes."""
    sizes: tuple[str, ...]
    """Symbols, as ``int64_t``."""
    floats: tuple[str, ...]
    """Python expressions over the symbols, as ``double``."""
    checked: bool
    """Whether a result other than 0 means that an index was out of range."""
    in_place: dict[str, str] = field(default_factory=dict)
    """Outputs that overwrite an input, by output: they need no memory of their own."""
    chunked: bool = False
    """Whether it takes ``starts`` and ``chunks`` after its outputs."""


@dataclass(frozen=True)
class Library:
    """The whole file and its functions by kernel."""

    source: str
    functions: dict[str, tuple[Function, ...]]

    def distinct(self) -> list[Function]:
        """One of each name: kernels that repeat each other share a function."""
        return list({f.name: f for functions in self.functions.values() for f in functions}.values())


def library(plans: Sequence[Plan], settings: Settings) -> Library:
    """Print all kernels of the plans, whose names differ; a function that repeats another but for names, once."""
    texts: dict[str, str] = {}
    """By what they say without names: the name of the first function that says it."""
    parts: list[str] = []
    functions: dict[str, tuple[Function, ...]] = {}
    exact = frozenset[str]().union(*(deciding_exponentials(plan.graph) for plan in plans))
    if exact and settings.math in ("short", "fast"):
        settings = replace(settings, math="accurate")  # the others give 0 for subnormal exponentials
    needs = Needs(settings.math)
    for plan, kernel in [(owner, kernel) for owner in plans for kernel in owner.kernels]:
        reused = overwritten(plan, kernel) if settings.in_place and isinstance(kernel, Kernel) else {}
        printed = _kernel(kernel, plan.nodes, settings, needs, reused, exact)
        for function, text in printed:
            first = texts.setdefault(nameless(text, [function.name, *_DECLARED.findall(text)]), function.name)
            if first == function.name:
                parts.append(text)
            functions[kernel.name] = (*functions.get(kernel.name, ()), replace(function, name=first))
    head = [snippet(sorted(needs.math)), prelude(needs.helpers)]  # type: ignore[arg-type]
    if needs.lookups:
        head.append(lookup_snippet(sorted(needs.lookups)))
    return Library("\n".join([*head, *parts]), functions)


def _kernel(
    kernel: AnyKernel,
    nodes: Mapping[str, Node],
    settings: Settings,
    needs: Needs,
    reused: dict[str, str],
    exact: frozenset[str],
) -> list[tuple[Function, str]]:
    needs.floats = {}
    if isinstance(kernel, Kernel):
        bodies = {"": kernel_body(kernel, settings, needs, exact)}
        outputs = list({store.buffer.name: store.buffer for store in kernel.stores.values()}.values())
    else:
        bodies = special_functions(kernel, settings, needs)
        outputs = kernel.buffers
    printed = []
    for suffix, body in bodies.items():
        counting = suffix == "_count"
        roots = [kernel.mask] if counting and isinstance(kernel, SpecialKernel) and kernel.mask else kernel.roots()
        function = Function(
            name=f"{kernel.name}{suffix}",
            inputs=tuple(buffers_read(roots)),
            outputs=() if counting else tuple(buffer.name for buffer in outputs),
            sizes=_sizes(kernel, roots),
            floats=tuple(needs.floats),
            checked=any("ks_wrap" in line or "bad |=" in line for line in body),
            chunked=bool(suffix),
            in_place=reused,
        )
        huge = [] if counting or not settings.huge_pages else _huge_pages(kernel, outputs, needs)
        printed.append((function, _text(function, roots, outputs, [*huge, *body], kernel, nodes)))
    return printed


def _sizes(kernel: AnyKernel, roots: list[Scalar]) -> tuple[str, ...]:
    names: set[str] = set()
    polys: list[Poly] = list(kernel.dims)
    if isinstance(kernel, Kernel):
        for store in kernel.stores.values():
            polys += [store.offset, *store.buffer.shape]
    else:
        shapes = [p for buffer in kernel.buffers for p in buffer.shape]
        polys += [p for p in shapes if not any(n.startswith("u") for n in p.names)]
        polys += kernel.axes.values() if isinstance(kernel, SteppedKernel) else ()
    names = names.union(*(p.names for p in polys), *(root.names for root in roots))
    names = {name for name in names if not name.startswith("@") and not re.fullmatch(r"i\d+", name)}
    return tuple(sorted(names))


def _huge_pages(kernel: AnyKernel, outputs: list[Buffer], needs: Needs) -> list[str]:
    if isinstance(kernel, Kernel):
        outputs = [s.buffer for s in kernel.stores.values() if s.level == "element"]
    lines = []
    for buffer in outputs:
        shape = buffer.shape
        if any(name.startswith("u") for p in shape for name in p.names) and isinstance(kernel, SpecialKernel):
            continue
        count = index_text(product(shape), _inline)
        name = cname(buffer.name)
        lines.append(f"{needs.helper('ks_huge_pages')}({name}_out, ({count}) * int64_t(sizeof *{name}_out));")
    return lines


def _inline(value: Scalar) -> str:
    return quotient_text(value, _inline) if value.op == "quotient" else "0"


def _text(
    function: Function,
    roots: list[Scalar],
    outputs: list[Buffer],
    body: list[str],
    kernel: AnyKernel,
    nodes: Mapping[str, Node],
) -> str:
    dtypes = buffers_read(roots)
    out_types = {buffer.name: buffer.dtype for buffer in outputs}
    shared = {*function.in_place, *function.in_place.values()}
    arguments = [f"const {STORED[dtypes[n]]}*{_restrict(n, shared)} {cname(n)}" for n in function.inputs]
    arguments += [f"{STORED[out_types[n]]}*{_restrict(n, shared)} {cname(n)}_out" for n in function.outputs]
    if function.chunked:
        arguments += ["int64_t* __restrict starts", "int64_t chunks"]
    arguments += [f"int64_t {name}" for name in function.sizes]
    arguments += [f"double float{n}" for n in range(len(function.floats))]
    return "\n".join(
        [
            f"// {operators_in(kernel, roots, nodes)}",
            f'extern "C" int64_t {function.name}({", ".join(arguments)}) {{',
            *indent(body),
            "}",
            "",
        ]
    )


def _restrict(name: str, shared: set[str]) -> str:
    return "" if name in shared else " __restrict"
