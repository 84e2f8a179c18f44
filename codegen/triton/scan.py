"""Running sums and products in Triton: a row in one block, or block after block with what came before carried along."""

from ..ir.build import is_float
from ..ir.loops import SpecialKernel, buffers_read
from ..ir.poly import ZERO, Poly, product, variable
from ..ir.printing import python_poly
from ..lowering.views import linear
from .function_text import function_text
from .launch import Launch, TritonKernel
from .scope import INSIDE, OUTSIDE, Axis, TritonScope, pname
from .text import TYPES, TritonNeeds
from .tunables import GpuSettings

BLOCK = 2048
"""Elements of a row that are scanned at once."""


def scan_kernel(kernel: SpecialKernel, settings: GpuSettings, needs: TritonNeeds) -> TritonKernel:
    """``cumsum`` or ``cumprod`` over the last dimension: one program for each row."""
    needs.floats = {}
    last = len(kernel.dims) - 1
    names = tuple(f"i{d}" for d in range(last + 1))
    axes = [Axis("rows", names[:-1], kernel.dims[:-1], ""), Axis("cols", names[-1:], kernel.dims[-1:], "col_mask")]
    scope = TritonScope(needs, axes, {names[-1], "cols"})
    scope.count([kernel.value])
    value = scope.text(kernel.value)
    product_of, of_floats = kernel.kind == "product", is_float(kernel.value.dtype)
    # A part of a row may overflow float32 where the row, small by then, does not.
    t = "tl.float64" if product_of and of_floats else TYPES[kernel.value.dtype]
    neutral = ("1" if product_of else "0") + (".0" if of_floats else "")
    whole, running = "before + tl.sum(block, 0)", "before + tl.cumsum(block, 0)"
    if product_of:
        times = needs.helper("ks_mul")
        whole, running = f"before * tl.reduce(block, 0, {times})", f"before * tl.associative_scan(block, 0, {times})"
    if product_of and of_floats:
        running = f"{needs.helper('ks_running_product')}(block, before)"
        whole = f"tl.sum(tl.where(tl.arange(0, {BLOCK}) == {BLOCK - 1}, running, 0.0), 0)"
    offset = scope.offset(linear([variable(n) for n in names], kernel.dims))
    out = f"{pname(kernel.buffer.name)}_out"
    body = [
        "rows = tl.program_id(0).to(tl.int64)",
        f"before = tl.full((), {neutral}, {t})",
        f"for start in range(0, {scope.index(kernel.dims[-1])}, {BLOCK}):",
        f"    cols = start + tl.arange(0, {BLOCK})",
        f"    col_mask = cols < {scope.index(kernel.dims[-1])}",
        *(f"    {line}" for line in [*scope.lines[OUTSIDE], *scope.lines[INSIDE]]),
        f"    block = tl.where(col_mask, tl.cast({value}, {t}), tl.full((), {neutral}, {t}))",
        f"    running = {running}",
        f"    tl.store({out} + {offset}, tl.cast(running, {TYPES[kernel.value.dtype]}), mask=col_mask)",
        f"    before = {whole}",
    ]
    comment, warps = "cumprod" if product_of else "cumsum", settings.warps or 4
    return special_kernel(kernel, python_poly(product(kernel.dims[:-1])), body, needs, comment, warps)


def special_kernel(
    kernel: SpecialKernel, grid: str, body: list[str], needs: TritonNeeds, comment: str, warps: int, place: Poly = ZERO
) -> TritonKernel:
    """Text and launch of a kernel with one output, whose ``body`` computes its roots and stores them at ``place``."""
    own = {name for v in kernel.variables for name in v.names}
    names: set[str] = set().union(*(p.names for p in kernel.dims), *(root.names for root in kernel.roots()))
    names |= place.names
    symbols = sorted(name for name in names if name[0] != "@" and name not in own)
    tensors = (
        *((f"{pname(n)}_ptr", n, dtype) for n, dtype in buffers_read(kernel.roots()).items()),
        (f"{pname(kernel.buffer.name)}_out", kernel.buffer.name, kernel.buffer.dtype),
    )
    numbers = [(s, s) for s in symbols]
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    text = function_text(kernel.name, tensors, numbers, set(), body, comment)
    launch = Launch(kernel.name, (grid,), tensors, tuple(numbers), {"num_warps": warps})
    return TritonKernel(text, launch, (kernel.buffer.name,))
