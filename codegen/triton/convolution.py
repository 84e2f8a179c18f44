"""Convolutions as implicit matrix products in Triton: which ones, their tiles, and operators fused before them."""

import math

from ...schemas import Graph, Items, Node, Ref
from ..ir.loops import Buffer, Kernel
from ..ir.poly import ONE, Poly, floordiv, poly, product
from ..ir.printing import python_poly
from ..lowering.plan import Plan
from ..lowering.views import shape_of, squeezed
from .convolution_text import (
    FILTERS_TEXT,
    LAST_TEXT,
    LETTERS,
    LOCALS,
    PLAIN_SOURCE,
    ROUND,
    TRANSPOSED_SOURCE,
    ConvolutionText,
    Cut,
    Slide,
)
from .epilogue import SUMS, epilogue, finishing
from .function_text import function_text, names_fixed, symbols_of, tensors_of
from .launch import Launch, TritonKernel
from .prepare import Sizes, Tile, power
from .row_shape import Shape
from .rows import RowWriter
from .scope import OUTSIDE, pname
from .text import TritonNeeds
from .tunables import GpuSettings

CONVOLUTION = "ks.convolution"
"""A convolution over one to three dimensions, transposed or not, in groups or not. What reads its result elementwise
is computed in the same kernel."""

_DTYPES = ("float32", "bfloat16", "float16")
_TAPS = 512
"""Elements of a window at most."""
_FEW = 16
"""Channels of a group below which taps and channels are summed over as one dimension."""


def fuse_convolutions(graph: Graph) -> Graph:
    """The graph with convolutions that the kernel can take as nodes of their own."""
    nodes = {node.name: node for node in graph.nodes}
    new_nodes = tuple(_convolution(node, nodes) or node for node in graph.nodes)
    return Graph(nodes=new_nodes, symbols=graph.symbols, guards=graph.guards)


def _integers(arg: object) -> tuple[int, ...]:
    items = arg.items if isinstance(arg, Items) else ()
    return tuple(i for i in items if isinstance(i, int))


def _convolution(node: Node, nodes: dict[str, Node]) -> Node | None:
    if node.target != "aten.convolution.default" or not all(isinstance(a, Ref) for a in node.args[:2]):
        return None
    x, w = (nodes[a.name] for a in node.args[:2] if isinstance(a, Ref))
    rank = len(x.values[0].shape) - 2
    stride, padding, dilation = (_integers(arg) for arg in node.args[3:6])
    transposed, groups = bool(node.args[6]), node.args[8]
    example = w.values[0].example
    if not example or x.values[0].dtype not in _DTYPES or not 1 <= rank <= 3 or not isinstance(groups, int):
        return None
    if any(len(p) != rank for p in (stride, padding, dilation)) or math.prod(example[2:]) > _TAPS:
        return None
    images, filters, *places = node.values[0].example
    channels = example[0] // groups if transposed else example[1]
    # What is left is narrow enough for the library's own kernels, or for loops.
    if 1 in (filters, images * math.prod(places)) or channels * math.prod(example[2:]) < _FEW:
        return None
    if groups > 1 and channels * (filters // groups) < 2 * _FEW:
        return None
    args = (*(Ref(name=n.name) for n in (x, w)), *node.args[2:3])
    sizes = {"stride": stride, "padding": padding, "dilation": dilation}
    kwargs = {name: Items(items=values) for name, values in sizes.items()}
    return Node(
        name=node.name,
        op="call",
        target=CONVOLUTION,
        args=args,
        kwargs={**kwargs, "transposed": transposed, "groups": groups},
        values=node.values,
    )


def convolution_user(node: Node, plan: Plan) -> Kernel | None:
    """The pointwise kernel that alone reads the convolution's result, and no element of it but the one it writes."""
    kernel = epilogue(node, plan)
    fits = kernel is not None and kernel.reduced is None and kernel.dims == squeezed(shape_of(node))
    return kernel if fits else None


class Convolution:
    """One convolution with its sizes, and the kernels that it takes."""

    def __init__(self, node: Node, nodes: dict[str, Node], sizes: Sizes, settings: GpuSettings) -> None:
        self.node = node
        self.settings = settings
        self.x, self.w, *self.bias = (a.name for a in node.args if isinstance(a, Ref))
        self.dtype = node.values[0].dtype
        self.transposed, self.groups = bool(node.kwargs["transposed"]), int(str(node.kwargs["groups"]))
        self.images, channels, *self.image = shape_of(nodes[self.x])
        _, filters, *self.result = shape_of(node)
        self.taps = shape_of(nodes[self.w])[2:]
        self.channels, self.filters = (floordiv(size, poly(self.groups)) for size in (channels, filters))
        few = sizes.of(self.channels) < _FEW
        self.last = bool(settings.channels_last) and not few
        stride, padding, dilation = (_integers(node.kwargs[name]) for name in ("stride", "padding", "dilation"))
        windows = zip(stride, padding, dilation, strict=True)
        self.slides = tuple(Slide(s, p, d, self.transposed) for s, p, d in windows)
        self.widths, self.most_channels = self._widths(sizes) if few else ((), 0)
        self.cut = self._cut(sizes)

    def _widths(self, sizes: Sizes) -> tuple[tuple[int, ...], int]:
        """See :class:`ConvolutionText`: as many dimensions as it takes for a block, the last one at least."""
        channels = total = power(sizes.of(self.channels))
        widths: list[int] = []
        for size, slide in zip(reversed(self.taps), reversed(self.slides), strict=True):
            taps = power(-(-sizes.of(size) // slide.skip))
            widths.append(0 if widths and total >= _FEW else taps)
            total *= widths[-1] or 1
        return tuple(reversed(widths)), channels * max(1, _FEW // total)

    @property
    def rounded(self) -> bool:
        """Whether inputs are rounded to tf32."""
        return self.dtype == "float32" and self.settings.precision == "tf32"

    def _cut(self, sizes: Sizes) -> Cut:
        settings, channels = self.settings, sizes.of(self.channels)
        m = min(settings.tile_m or 128, max(16, power(sizes.of(self.filters))))
        # Every element of a block of few channels has an address of its own: registers do not hold many.
        n = min(settings.tile_n or 128, 128 if self.widths else 512)
        k = settings.tile_k or (32 if self.dtype == "float32" or channels % 64 else 64)
        while not (settings.tile_k or self.widths) and k > 16 and channels % k:
            k //= 2
        total = self.most_channels * math.prod(filter(None, self.widths)) if self.widths else max(16, power(channels))
        k = min(k, total)
        warps = settings.warps or (8 if m * n >= 128 * 128 else 4)
        if self.widths:
            warps = max(warps, n * k // 512)
        return Cut(m, n, k, warps, settings.stages or 3)

    @property
    def text(self) -> ConvolutionText:
        """What writes the body."""
        return ConvolutionText(
            self.slides,
            self.groups,
            self.cut,
            self.widths,
            self.most_channels,
            self.last,
            self.rounded and not self.last,
            self.settings.precision if self.dtype == "float32" else "",
            bool(self.bias),
        )

    @property
    def filters_last(self) -> Buffer:
        """``(filters, taps, channels of a group)``."""
        shape = (self.filters * self.groups, product(self.taps), self.channels)
        return Buffer(f"{self.node.name}_filters", self.dtype, shape)

    @property
    def channels_last(self) -> Buffer:
        """``(images, places, channels)``."""
        shape = (self.images, product(self.image), self.channels * self.groups)
        return Buffer(f"{self.node.name}_channels_last", self.dtype, shape)

    @property
    def scratch(self) -> list[Buffer]:
        """What the kernels hand on."""
        return [self.filters_last, *([self.channels_last] if self.last else [])]

    def numbers(self) -> list[tuple[str, str]]:
        """Sizes of the images, of the filters and of the result."""
        letters = LETTERS[-len(self.image) :]
        sizes = [("images", self.images), ("CHANNELS", self.channels), ("FILTERS", self.filters)]
        sizes += zip(("DEPTH", "HEIGHT", "WIDTH")[-len(letters) :], self.image, strict=True)
        for name, values in (("TAPS", self.taps), ("OUT", self.result)):
            sizes += [(f"{name}_{c.upper()}", value) for c, value in zip(letters, values, strict=True)]
        return [(name, python_poly(value)) for name, value in sizes]

    def before(self) -> list[TritonKernel]:
        """Kernels that rearrange filters, and the input where it is to have its channels last."""
        rounded = f"x = {ROUND.format('x')}\n" if self.rounded else ""
        source = TRANSPOSED_SOURCE if self.transposed else PLAIN_SOURCE
        sizes = {"CHANNELS": self.channels, "TAPS": product(self.taps), "FILTERS": self.filters}
        whole = product(self.filters_last.shape)
        kernels = [
            _moving(
                f"filters_{self.node.name}",
                ("ks_w_ptr", self.w, self.dtype),
                ("ks_filters_out", self.filters_last),
                {**sizes, "total": whole},
                FILTERS_TEXT.format(source=source, rounded=rounded),
                (f"_cdiv({python_poly(whole)}, 1024)",),
            )
        ]
        if self.last:
            area, channels = product(self.image), self.channels * self.groups
            kernels.append(
                _moving(
                    f"last_{self.node.name}",
                    ("ks_x_ptr", self.x, self.dtype),
                    ("ks_last_out", self.channels_last),
                    {"CHANNELS": channels, "area": area},
                    LAST_TEXT.format(block=64, rounded=rounded),
                    (
                        f"_cdiv({python_poly(area)}, 64)",
                        f"_cdiv({python_poly(channels)}, 64)",
                        python_poly(self.images),
                    ),
                )
            )
        return kernels

    def grid(self) -> str:
        """Tiles of filters, groups, phases, and tiles of positions."""
        images, filters = python_poly(self.images), python_poly(self.filters)
        positions = self.text.steps(tuple(f"({python_poly(size)})" for size in self.result))
        several = self.groups * math.prod(slide.phases for slide in self.slides)
        return f"_cdiv({filters}, {self.cut.m}) * {several} * _cdiv(({images}) * {positions}, {self.cut.n})"

    def conditions(self) -> list[str]:
        """What must hold of the sizes: for indices of 32 bits, and for all terms to be in the sums."""
        read = product((self.images, self.channels * self.groups, *self.image))
        written = product((self.images, self.filters * self.groups, *self.result))
        conditions = [f"max({python_poly(written)}, {python_poly(read)}) <= {2**31}"]
        if self.widths:
            conditions.append(f"{python_poly(self.channels)} <= {self.most_channels}")
        for size, slide, width in zip(self.taps, self.slides, self.widths, strict=False):
            conditions += [f"{python_poly(size)} <= {width * slide.skip}"] if width else []
        return conditions


def _moving(
    name: str,
    source: tuple[str, str, str],
    target: tuple[str, Buffer],
    sizes: dict[str, Poly],
    body: str,
    grid: tuple[str, ...],
) -> TritonKernel:
    """A kernel that writes what it reads in another order."""
    parameter, buffer = target
    tensors = (source, (parameter, buffer.name, buffer.dtype))
    numbers = [(n, python_poly(size)) for n, size in sizes.items()]
    fixed = {n for n in sizes if n.isupper()}
    text = function_text(pname(name), tensors, numbers, fixed, body.splitlines(), "in another order")
    launch = Launch(pname(name), grid, tensors, tuple(numbers), {"num_warps": 4})
    return TritonKernel(text, launch, (buffer.name,))


def convolution_kernels(
    convolution: Convolution, user: Kernel | None, needs: TritonNeeds, conditions: list[str]
) -> list[TritonKernel]:
    """The kernels of one convolution and of what follows it."""
    needs.floats = {}
    node, cut = convolution.node, convolution.cut
    kernel = _finishing(node, user)
    after = _after(kernel, cut, convolution.settings, needs)
    tensors = [
        ("ks_x_ptr", convolution.channels_last.name if convolution.last else convolution.x, convolution.dtype),
        ("ks_w_ptr", convolution.filters_last.name, convolution.dtype),
    ]
    tensors += [("ks_bias_ptr", convolution.bias[0], convolution.dtype)] if convolution.bias else []
    tensors += tensors_of(kernel)
    numbers = [*convolution.numbers(), *((name, name) for name in sorted(symbols_of(kernel)))]
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    fixed = {n for n, _ in numbers if n.isupper()} | names_fixed(kernel.dims[1:])
    body = [*convolution.text.lines(), *after]
    text = function_text(kernel.name, tuple(tensors), numbers, fixed, body, "convolution and what follows it")
    conditions.extend(convolution.conditions())
    options: dict[str, str | int] = {"num_warps": cut.warps, "num_stages": cut.stages}
    launch = Launch(kernel.name, (convolution.grid(),), tuple(tensors), tuple(numbers), options)
    outputs = tuple(store.buffer.name for store in kernel.stores.values())
    return [*convolution.before(), TritonKernel(text, launch, outputs)]


def _finishing(node: Node, user: Kernel | None) -> Tile:
    """What follows a convolution: filters are its rows, images and their positions its columns."""
    shape = shape_of(node)
    dims = squeezed(shape)
    filters = [d for d, size in enumerate(shape) if size != ONE].index(1)
    columns = (d for d in range(len(dims)) if d != filters)
    return finishing(node, user, dims, columns, f"convolution_{node.name}")


def _after(kernel: Tile, cut: Cut, settings: GpuSettings, needs: TritonNeeds) -> list[str]:
    """Statements that use the accumulator."""
    rows = RowWriter(kernel, Shape(max(2, cut.m), 0), settings, needs)
    rows.scope.results[SUMS] = "acc"
    rows.scope.taken |= LOCALS
    return [*rows.passes(), *rows.drained(OUTSIDE)]
