"""Every generated kernel of a plan as Triton, and how the glue launches them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ....schemas import Node
from .loops import Buffer, Kernel, SpecialKernel, buffers_read
from .poly import Poly, product
from .printing import python_poly
from .regions import Plan
from .triton_attention import ATTENTION, attention_kernel
from .triton_convolution import CONVOLUTION, convolution_kernel
from .triton_knobs import GpuSettings
from .triton_launch import Launch, TritonKernel
from .triton_library_products import product_kernel
from .triton_points import PointWriter, shape_of_points
from .triton_prepare import Sizes, Tile, prepare
from .triton_products import products, tiles_of
from .triton_rows import WHOLE_LIMIT, RowWriter, indent, shape_of_tile
from .triton_scan import scan_kernel
from .triton_scope import pname
from .triton_text import TritonNeeds, prelude

TEMPLATES = (ATTENTION, CONVOLUTION)
"""Nodes that only exist where a kernel is made for them."""

_ELEMENTS = 2**31 - 1
"""Elements from which on indices need 64 bits."""


@dataclass(frozen=True)
class TritonLibrary:
    """All kernels, by the plan's kernel that they do the work of."""

    prelude: str
    kernels: dict[str, list[TritonKernel]]
    scratch: dict[str, list[Buffer]]
    conditions: list[str]
    """What must hold of the sizes for the kernels to be right."""
    fused: set[str]
    """Operators whose result only exists inside a kernel."""
    replaced: dict[str, TritonKernel]
    """Operators that have a kernel of their own, which writes their result."""

    def everything(self) -> list[TritonKernel]:
        """All kernels."""
        return [*self.replaced.values(), *(kernel for made in self.kernels.values() for kernel in made)]


def triton_library(plan: Plan, settings: GpuSettings) -> TritonLibrary:
    """Print all kernels of a plan."""
    sizes = Sizes({name: source.example for name, source in plan.graph.symbols.items()})
    needs = TritonNeeds(settings.math)
    kernels: dict[str, list[TritonKernel]] = {}
    scratch: dict[str, list[Buffer]] = {}
    conditions: list[str] = []
    fused: set[str] = set()
    replaced: dict[str, TritonKernel] = {}
    nodes = dict(plan.nodes)
    for node in plan.externs:
        if node.target == ATTENTION:
            replaced[node.name] = attention_kernel(node, nodes, sizes, settings, conditions)
        elif node.target == CONVOLUTION:
            replaced[node.name] = convolution_kernel(node, nodes, sizes, settings, conditions)
    for one in products(plan, sizes, settings):
        made_of = product_kernel(one, plan, sizes, settings, needs)
        if one.user is None:
            replaced[one.node.name] = made_of
            continue
        fused.add(one.node.name)
        kernels[one.user.name] = [made_of]
        if one.user.reduced is not None:
            tile_n = tiles_of(one, sizes, settings).n
            conditions.append(f"{python_poly(one.n)} <= {tile_n}")
    for kernel in plan.kernels:
        if kernel.name in kernels:
            continue
        if isinstance(kernel, SpecialKernel):
            kernels[kernel.name] = [scan_kernel(kernel, settings, needs)]
            continue
        made = prepare(kernel, sizes, settings.split, settings.rows or 128)
        kernels[kernel.name] = [_kernel(tile, sizes, settings, needs, plan.nodes, conditions) for tile in made.kernels]
        scratch[kernel.name] = made.scratch
    return TritonLibrary(prelude(needs.helpers), kernels, scratch, list(dict.fromkeys(conditions)), fused, replaced)


def _kernel(
    kernel: Tile,
    sizes: Sizes,
    settings: GpuSettings,
    needs: TritonNeeds,
    nodes: Mapping[str, Node],
    conditions: list[str],
) -> TritonKernel:
    needs.floats = {}
    numbers: list[tuple[str, str]] = []
    if kernel.reduced is None:
        points = shape_of_points(kernel, sizes, settings)
        writer: PointWriter | RowWriter = PointWriter(kernel, points, settings, needs)
        body = writer.lines()
        grid, constants, warps = _points(kernel, points.rows, points.block)
        fixed = names_fixed(kernel.dims[1:])
    else:
        shape = shape_of_tile(kernel, sizes, settings)
        writer = RowWriter(kernel, shape, settings, needs)
        body = writer.lines()
        length = python_poly(product(kernel.dims[d] for d in kernel.inner))
        count = python_poly(product(kernel.dims[d] for d in kernel.outer))
        grid = f"_cdiv({count}, {shape.rows})"
        if shape.persistent:
            grid = f"min({shape.persistent}, {grid})"
        block = str(shape.block) if shape.block else f"_pow2({length})"
        constants = [] if shape.block else [("BLOCK", block)]
        constants += [("EVEN", f"({length}) % {block if shape.block else 'BLOCK'} == 0")]
        if not shape.block and not length.isdigit():
            conditions.append(f"{length} <= {WHOLE_LIMIT}")
        warps = _warps(shape.rows, block if shape.block else "BLOCK")
        fixed = names_fixed(kernel.dims[1:]) | names_fixed([kernel.dims[d] for d in kernel.inner])
    numbers += [(name, name) for name in sorted(symbols_of(kernel))]
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    numbers += [*constants, ("WIDE", f"{python_poly(product(kernel.dims))} > {_ELEMENTS}")]
    tensors = _tensors(kernel)
    comment = _comment(kernel, nodes)
    text = function_text(kernel.name, tensors, numbers, fixed, body, comment)
    options: dict[str, str | int] = {"num_warps": settings.warps or warps}
    outputs = tuple(store.buffer.name for store in kernel.stores.values())
    return TritonKernel(text, Launch(kernel.name, (grid,), tensors, tuple(numbers), options), outputs)


def _points(kernel: Tile, rows: int, block: int) -> tuple[str, list[tuple[str, str]], str | int]:
    if not rows:
        total = python_poly(product(kernel.dims))
        return f"_cdiv({total}, {block})", [("EVEN", f"({total}) % {block} == 0")], 4
    last, count = python_poly(kernel.dims[-1]), python_poly(product(kernel.dims[:-1]))
    return (
        f"_cdiv({last}, {block}) * _cdiv({count}, {rows})",
        [("EVEN", f"({last}) % {block} == 0")],
        max(1, min(8, rows * block // 512)),
    )


def _warps(rows: int, block: str) -> str | int:
    """Warps for a tile: 32 elements a thread, which is two or four accesses of 16 bytes under way in each."""
    if block.isdigit():
        return max(4, min(32, rows * int(block) // 512))
    return f"max(1, min(32, {rows} * {block} // 1024))"


def names_fixed(polys: "tuple[Poly, ...] | list[Poly]") -> set[str]:
    """Symbols that are compiled into a kernel."""
    found: set[str] = set()
    for p in polys:
        found |= p.names
    return found


def symbols_of(kernel: Kernel) -> set[str]:
    """Size symbols that a kernel names."""
    names: set[str] = set().union(*(p.names for p in kernel.dims), *(root.names for root in kernel.roots()))
    for store in kernel.stores.values():
        names |= store.offset.names
    if isinstance(kernel, Tile) and kernel.below is not None:
        names |= kernel.below[0].names | kernel.below[1].names
    return {name for name in names if not name.startswith("@") and not re.fullmatch(r"i\d+", name)}


def _tensors(kernel: Kernel) -> tuple[tuple[str, str, str], ...]:
    inputs = tuple((f"{pname(name)}_ptr", name, dtype) for name, dtype in buffers_read(kernel.roots()).items())
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


def _comment(kernel: Kernel, nodes: Mapping[str, Node]) -> str:
    names: dict[str, None] = {}
    for root in kernel.roots():
        for value in root.walk():
            names.update(dict.fromkeys(value.label))
    names.update(dict.fromkeys(kernel.nodes))
    targets = [nodes[n].target for n in names if n in nodes and nodes[n].op == "call"]
    return ", ".join(dict.fromkeys(target.removesuffix(".default") for target in targets)) or "copy"
