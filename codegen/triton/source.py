"""Writes all kernels of a plan as Triton text, and their launches for the host wrapper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...schemas import Node, ShapeFacts
from ..ir.loops import Buffer, Kernel, RecurrentKernel, SpecialKernel, buffers_read
from ..ir.poly import product
from ..ir.printing import python_poly
from ..lowering.online import deciding_exponentials
from ..lowering.plan import AnyKernel, Plan, operators_in
from ..lowering.views import shape_of
from .attention import ATTENTION, attention_kernel
from .chain import CHAIN, chain_kernel
from .convolution import CONVOLUTION, Convolution, convolution_kernels, convolution_user
from .function_text import function_text, names_fixed, symbols_of, tensors_of
from .launch import MOST_ELEMENTS, Launch, TritonKernel, settled
from .launch_table import sizes_at
from .library_products import product_kernel
from .points import PointShape, PointWriter, shape_of_points
from .prepare import Sizes, Tile, prepare
from .product_text import ProductWriter
from .products import Product, Tiles, is_split_ahead, products, tiles_of
from .recurrence import recurrence_kernel
from .recurrent_layers import LAYERS
from .recurrent_layers_text import recurrent_layers
from .row_shape import Shape, shape_of_tile
from .rows import RowWriter
from .scan import scan_kernel
from .split_3xtf32 import Split3xTF32Writer, splits_3xtf32, with_room
from .split_k import parts_of, split_product
from .stream_k import StreamEndWriter, StreamWriter, fits, stream_scratch
from .text import TritonNeeds, prelude
from .tunables import GpuSettings

TEMPLATES = (ATTENTION, CHAIN, CONVOLUTION, LAYERS)
"""Nodes that only exist where a kernel is made for them."""


@dataclass(frozen=True)
class TritonLibrary:
    """All kernels, by the plan's kernel that they do the work of."""

    prelude: str
    kernels: dict[str, list[TritonKernel]]
    scratch: dict[str, list[Buffer]]
    """By kernel of the plan, or operator, what its kernels hand on."""
    conditions: list[str]
    """What must hold of the sizes for the kernels to be right."""
    fused: set[str]
    """Operators whose result only exists inside a kernel."""
    replaced: dict[str, list[TritonKernel]]
    """Operators that have kernels of their own, which write their result."""

    def everything(self) -> list[TritonKernel]:
        """All kernels."""
        return [kernel for kernels in (*self.replaced.values(), *self.kernels.values()) for kernel in kernels]


def triton_library(plan: Plan, settings: GpuSettings, shapes: Sequence[ShapeFacts] = ()) -> TritonLibrary:
    """Print all kernels of a plan for a problem with further ``shapes``."""
    printer = _Printer(plan, settings, shapes)
    for node in plan.externs:
        if node.target in TEMPLATES:
            printer.template(node)
    for matmul in products(plan, printer.sizes, settings, set(printer.library.kernels)):
        printer.product(matmul)
    for kernel in plan.kernels:
        if kernel.name not in printer.library.kernels:
            printer.loops(kernel)
    library = printer.library
    symbols = plan.graph.symbols
    for kernels in (library.kernels, library.replaced):
        kernels.update(
            {name: [settled(triton_kernel, symbols) for triton_kernel in printed] for name, printed in kernels.items()}
        )
    return replace(library, prelude=prelude(printer.needs.helpers), conditions=list(dict.fromkeys(library.conditions)))


class _Printer:
    """Prints kernels one after the other; ``library`` holds what has been printed."""

    def __init__(self, plan: Plan, settings: GpuSettings, shapes: Sequence[ShapeFacts]) -> None:
        self.plan = plan
        self.settings = settings
        main = {name: source.example for name, source in plan.graph.symbols.items()}
        self.sizes = Sizes(main, tuple(main | sizes_at(shape, plan.graph) for shape in shapes))
        self.needs = TritonNeeds(settings.math, has_subnormals=bool(deciding_exponentials(plan.graph)))
        self.library = TritonLibrary("", {}, {}, [], set(), {})

    def template(self, node: Node) -> None:
        """Attention, two products in one, recurrent layers, or a convolution with what follows it."""
        nodes, sizes, conditions = self.plan.nodes, self.sizes, self.library.conditions
        if node.target == ATTENTION:
            self._take(node, None, [attention_kernel(node, self.plan, sizes, self.settings, conditions)])
            return
        if node.target == CHAIN:
            self._take(node, None, [chain_kernel(node, self.plan, self.settings, conditions)])
            return
        if node.target == LAYERS:
            printed, scratch, last = recurrent_layers(node, self.plan, sizes, self.settings, self.needs, conditions)
            self.library.scratch[node.name] = scratch
            self.library.fused.update(last)
            self._take(node, None, [printed])
            return
        user = convolution_user(node, self.plan)
        user = None if user is not None and user.name in self.library.kernels else user
        convolution = Convolution(node, nodes, sizes, self.settings)
        self.library.scratch[node.name if user is None else user.name] = convolution.scratch
        self._take(node, user, convolution_kernels(convolution, user, self.needs, conditions))

    def product(self, matmul: Product) -> None:
        """A matrix product with what comes before and follows it, in one kernel or with its sum in parts."""
        self.library.kernels.update({before.kernel.name: [] for _, before in matmul.before})
        parts = 1 if self.settings.stream_k else parts_of(matmul, self.sizes, self.settings)
        if parts > 1:
            self._split(matmul, parts)
            return
        tiles = tiles_of(matmul, self.sizes, self.settings)
        if is_split_ahead(matmul, self.sizes, self.settings):
            self._product_3xtf32(matmul, tiles)
            return
        if matmul.user is not None and matmul.user.reduced is not None:
            self.library.conditions.append(f"{python_poly(matmul.n)} <= {tiles.n}")
        kinds: list[type[ProductWriter]] = [ProductWriter]
        if self.settings.stream_k:
            kinds = [StreamWriter, StreamEndWriter]
            self.library.conditions.append(fits(matmul))
            self.library.scratch[_owner(matmul)] = [stream_scratch(matmul, tiles, self.settings.multiprocessors)]
        printed = [product_kernel(kind(matmul, tiles, self.settings, self.needs), self.plan) for kind in kinds]
        self._take(matmul.node, matmul.user, printed)

    def _split(self, matmul: Product, parts: int) -> None:
        split = split_product(matmul, parts, self.sizes, self.settings)
        writer = ProductWriter(split.matmul, split.tiles, self.settings, self.needs, split.scratch)
        first = product_kernel(writer, self.plan)
        rest, scratch = self._prepared(split.rest)
        self.library.conditions.append(f"{python_poly(product(split.scratch.shape))} <= {MOST_ELEMENTS}")
        self.library.scratch[_owner(matmul)] = [split.scratch, *scratch]
        self._take(matmul.node, matmul.user, [first, *rest])

    def _product_3xtf32(self, matmul: Product, tiles: Tiles) -> None:
        splits = splits_3xtf32(matmul)
        most = " and ".join(f"2 * ({python_poly(split.elements)}) <= {MOST_ELEMENTS}" for split in splits)
        self.library.conditions.append(most)
        self.library.scratch[_owner(matmul)] = [split.buffer for split in splits]
        writer = Split3xTF32Writer(matmul, with_room(tiles, self.settings), self.settings, self.needs)
        printed = [*(split.kernel(self.plan) for split in splits), product_kernel(writer, self.plan)]
        self._take(matmul.node, matmul.user, printed)

    def _take(self, node: Node, user: Kernel | None, printed: list[TritonKernel]) -> None:
        if user is None:
            self.library.replaced[node.name] = printed
        else:
            self.library.fused.add(node.name)
            self.library.kernels[user.name] = printed

    def loops(self, kernel: AnyKernel) -> None:
        """Rows, columns, elements, a scan, or a recurrence."""
        if isinstance(kernel, RecurrentKernel):
            printed = recurrence_kernel(kernel, self.sizes, self.settings, self.needs)
            self.library.kernels[kernel.name] = [printed]
        elif isinstance(kernel, SpecialKernel):
            self.library.kernels[kernel.name] = [scan_kernel(kernel, self.settings, self.needs)]
        else:
            self.library.kernels[kernel.name], self.library.scratch[kernel.name] = self._prepared(kernel)

    def _prepared(self, kernel: Kernel) -> tuple[list[TritonKernel], list[Buffer]]:
        prepared = prepare(kernel, self.sizes, self.settings)
        nodes, conditions = self.plan.nodes, self.library.conditions
        tiles = [(t, _settings_of(t, self.settings, alone=len(prepared.kernels) == 1)) for t in prepared.kernels]
        printed = [_kernel(t, self.sizes, settings, self.needs, nodes, conditions) for t, settings in tiles]
        return printed, prepared.scratch


def _settings_of(kernel: Tile, settings: GpuSettings, *, alone: bool) -> GpuSettings:
    """A single program that puts together what others found has the multiprocessor to itself: many threads, whatever
    the others have. Of the 142 us of cross entropy on an H200 that saves 0.6.
    """
    if alone or kernel.reduced is None or kernel.outer:
        return settings
    return replace(settings, warps=0, block=1 << 14, rows=0, stages=0, row="auto")


def _owner(matmul: Product) -> str:
    """What has the buffers between a product's kernels: the kernel that takes its result, or the operator."""
    return matmul.node.name if matmul.user is None else matmul.user.name


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
        grid, constants, warps = _points(kernel, points)
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
        constants, warps = _constants(shape, length, writer.width)
        if not shape.block and not length.isdigit():
            conditions.append(f"{length} <= {sum(shape.row_split) or shape.longest}")
        fixed = names_fixed(kernel.dims[1:]) | names_fixed([kernel.dims[d] for d in kernel.inner])
    sizes_read = sorted(symbols_of(kernel))
    numbers += [(name, name) for name in sizes_read]
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    numbers += [*constants, ("WIDE", _wide(kernel, sizes, nodes))]
    tensors = tensors_of(kernel)
    comment = operators_in(kernel, kernel.roots(), nodes)
    # Triton passes small numbers in 32 bits, in which their products wrap.
    widened = [f"{name} = tl.cast({name}, tl.int64) if WIDE else {name}" for name in sizes_read if name not in fixed]
    text = function_text(kernel.name, tensors, numbers, fixed, [*widened, *body], comment)
    options: dict[str, str | int] = {"num_warps": settings.warps or warps}
    outputs = tuple(store.buffer.name for store in kernel.stores.values())
    return TritonKernel(text, Launch(kernel.name, (grid,), tensors, tuple(numbers), options), outputs)


def _constants(shape: Shape, length: str, width: int) -> tuple[list[tuple[str, str]], str | int]:
    """Constants of a kernel with rows of ``length`` elements of ``width`` bytes, and its warps."""
    if shape.block:
        share = 128 if shape.columns else 512
        return [("EVEN", f"({length}) % {shape.block} == 0")], max(4, min(32, shape.rows * shape.block // share))
    # Of a whole row two accesses of 16 bytes a thread.
    share = 1024 // width
    if shape.row_split:
        total = sum(shape.row_split)
        return [("EVEN", f"({length}) == {total}")], max(1, min(32, shape.rows * shape.row_split[0] // share))
    if shape.columns:
        # What threads of other warps hold of a column is summed by all of them: 64 channels of 29 million columns took
        # 9.1 ms with 32 warps, 5.3 with 4 to 16 (H100).
        share = 1024
    constants = [("BLOCK", f"_pow2({length})"), ("EVEN", f"({length}) % BLOCK == 0")]
    return constants, f"max(1, min(32, {shape.rows} * BLOCK // {share}))"


def _wide(kernel: Tile, sizes: Sizes, nodes: Mapping[str, Node]) -> str:
    """Whether indices need 64 bits: for what is written, or for what is read where that is larger."""
    elements = product(kernel.dims)
    read = [product(shape_of(nodes[n])) for n in buffers_read(kernel.roots()) if n in nodes and nodes[n].values]
    larger = [p for p in dict.fromkeys(read) if sizes.of(p) > sizes.of(elements)]
    most = ", ".join(python_poly(p) for p in (elements, *larger))
    return f"{f'max({most})' if larger else most} > {MOST_ELEMENTS}"


def _points(kernel: Tile, shape: PointShape) -> tuple[str, list[tuple[str, str]], str | int]:
    rows, block = shape.rows, shape.block
    if not rows:
        total = python_poly(product(kernel.dims))
        return f"_cdiv({total}, {block})", [("EVEN", f"({total}) % {block} == 0")], shape.warps or 4
    last, count = python_poly(kernel.dims[-1]), python_poly(product(kernel.dims[:-1]))
    return (
        f"_cdiv({last}, {block}) * _cdiv({count}, {rows})",
        [("EVEN", f"({last}) % {block} == 0")],
        shape.warps or max(1, min(8, rows * block // 512)),
    )
