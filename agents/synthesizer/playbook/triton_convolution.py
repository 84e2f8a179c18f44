"""Convolutions as implicit matrix products in Triton: channels down, positions of all images across."""

import math
from dataclasses import dataclass, replace

from ....schemas import Arg, Graph, Items, Node, Ref, TensorMeta
from .anchors import squeezed
from .loops import Buffer, Kernel, Store, buffers_read
from .poly import ONE, variable
from .printing import python_poly
from .regions import Plan
from .scalar import Scalar, rewrite
from .triton_knobs import GpuSettings
from .triton_launch import Launch, TritonKernel
from .triton_prepare import Sizes, Tile, power
from .triton_rows import RowWriter, Shape
from .triton_scope import OUTSIDE, pname
from .triton_text import TritonNeeds
from .views import linear, shape_of
from .windows import call

CONVOLUTION = "ks.convolution"
"""A convolution over one or two dimensions; the weight comes as ``(kernel positions, out, in)``. What reads its result
elementwise is computed in the same kernel."""

_DTYPES = ("float32", "bfloat16", "float16")


def fuse_convolutions(graph: Graph) -> Graph:
    """The graph with convolutions that the kernel can take as nodes of their own, their weights rearranged before."""
    found: list[Node] = []
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        found += _convolution(node, nodes) or [node]
    return Graph(nodes=tuple(found), symbols=graph.symbols, guards=graph.guards)


def _integers(arg: object) -> tuple[int, ...]:
    items = arg.items if isinstance(arg, Items) else ()
    return tuple(i for i in items if isinstance(i, int))


def _convolution(node: Node, nodes: dict[str, Node]) -> list[Node]:
    if node.target != "aten.convolution.default" or not all(isinstance(a, Ref) for a in node.args[:2]):
        return []
    x, w = (nodes[a.name] for a in node.args[:2] if isinstance(a, Ref))
    rank = len(x.values[0].shape) - 2
    stride, padding, dilation = (_integers(arg) for arg in node.args[3:6])
    transposed, groups = bool(node.args[6]), node.args[8]
    plain = groups == 1 and x.values[0].dtype in _DTYPES and rank in (1, 2)
    example = w.values[0].example
    if not plain or not example or any(len(p) != rank for p in (stride, padding, dilation)):
        return []
    if transposed and (set(stride) != {1} or any(_integers(node.args[7])) or not _are_numbers(w, rank)):
        return []
    flat = (node.values[0].shape[1], math.prod(node.values[0].example[:1] + node.values[0].example[2:]))
    if example[0 if transposed else 1] < 16 or _taps(example) > 49 or 1 in flat:
        return []
    name = f"{node.name}_weight"
    weight = _weight(name, w, rank, transposed)
    if transposed:
        # Its adjoint with the filter turned round: every output is a sum over a window again.
        reach = tuple(d * (n - 1) for d, n in zip(dilation, example[2:], strict=True))
        padding = tuple(r - p for r, p in zip(reach, padding, strict=True))
    args = (Ref(name=x.name), Ref(name=name), *node.args[2:3])
    kwargs: dict[str, Arg] = {
        "stride": Items(items=stride),
        "padding": Items(items=padding),
        "dilation": Items(items=dilation),
    }
    return [*weight, Node(name=node.name, op="call", target=CONVOLUTION, args=args, kwargs=kwargs, values=node.values)]


def _are_numbers(w: Node, rank: int) -> bool:
    return all(isinstance(size, int) for size in w.values[0].shape[-rank:])


def _weight(name: str, w: Node, rank: int, transposed: bool) -> list[Node]:
    """The weight as ``(kernel positions, out, in)``; of a transposed convolution it comes the other way round."""
    meta, places = w.values[0], tuple(range(2, rank + 2))
    order = (*places, 1, 0) if transposed else (*places, 0, 1)
    permuted = TensorMeta(
        shape=tuple(meta.shape[d] for d in order), dtype=meta.dtype, example=tuple(meta.example[d] for d in order)
    )
    if not transposed:
        return [call(name, "aten.permute.default", (Ref(name=w.name), Items(items=order)), permuted)]
    turned = TensorMeta(shape=meta.shape, dtype=meta.dtype, example=meta.example)
    return [
        call(f"{name}_turned", "aten.flip.default", (Ref(name=w.name), Items(items=places)), turned),
        call(name, "aten.permute.default", (Ref(name=f"{name}_turned"), Items(items=order)), permuted),
    ]


def _taps(example: tuple[int, ...]) -> int:
    return math.prod(example[2:])


def _pair(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def convolution_user(node: Node, plan: Plan) -> Kernel | None:
    """The pointwise kernel that alone reads the convolution's result, and no element of it but the one it writes."""
    from .in_place import _only_user

    readers = [k for k in plan.kernels if node.name in buffers_read(k.roots())]
    if len(readers) != 1 or not isinstance(readers[0], Kernel) or not _only_user(plan, readers[0], node.name):
        return None
    kernel = readers[0]
    whole = linear(kernel.variables, kernel.dims)
    offsets = {n.polys[0] for r in kernel.roots() for n in r.walk() if n.op == "load" and n.data[0] == node.name}
    fits = kernel.reduced is None and kernel.dims == squeezed(shape_of(node)) and offsets == {whole}
    return kernel if fits else None


def convolution_kernel(
    node: Node,
    user: Kernel | None,
    nodes: dict[str, Node],
    sizes: Sizes,
    settings: GpuSettings,
    needs: TritonNeeds,
    conditions: list[str],
) -> TritonKernel:
    """The kernel of one convolution and of what follows it."""
    from .triton import names_fixed, symbols_of

    x, w, *bias = (a.name for a in node.args if isinstance(a, Ref))
    needs.floats = {}
    cut = _cut(node, sizes, settings, sizes.of(shape_of(nodes[x])[1]))
    kernel = _with_result(node, user)
    after, reads = _after(node, kernel, cut, settings, needs)
    dtype = node.values[0].dtype
    tensors = [("ks_x_ptr", x, dtype), ("ks_w_ptr", w, dtype)]
    tensors += [("ks_bias_ptr", bias[0], dtype)] if bias else []
    tensors += [(f"{pname(n)}_ptr", n, t) for n, t in reads.items()]
    tensors += [(f"{pname(s.buffer.name)}_out", s.buffer.name, s.buffer.dtype) for s in kernel.stores.values()]
    fixed = names_fixed(kernel.dims[1:])
    symbols = [(name, name) for name in sorted(symbols_of(kernel))]
    numbers = [*_numbers(node, nodes[x], nodes[w]), *symbols]
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    typed = [n if n == "IMAGES" or (n[0].islower() and n not in fixed) else f"{n}: tl.constexpr" for n, _ in numbers]
    name = pname(f"convolution_{node.name}") if user is None else user.name
    body = _BODY.format(
        name=name,
        parameters=", ".join([*(parameter for parameter, _, _ in tensors), *typed]),
        m=cut.m,
        n=cut.n,
        k=cut.k,
        stride=_pair(_integers(node.kwargs["stride"]), 1),
        padding=_pair(_integers(node.kwargs["padding"]), 0),
        dilation=_pair(_integers(node.kwargs["dilation"]), 1),
        precision=f', input_precision="{settings.precision}"' if dtype == "float32" else "",
        add=_ADD if bias else "",
        after="".join(f"\n    {line}" for line in after),
    )
    batch, channels, *image = (f"({python_poly(p)})" for p in shape_of(nodes[x]))
    _, out, *result = (f"({python_poly(p)})" for p in shape_of(node))
    positions = " * ".join((batch, *result))
    conditions.append(f"max({positions} * {out}, {' * '.join((batch, channels, *image))}) < {2**31}")
    grid = (f"_cdiv({out}, {cut.m}) * _cdiv({positions}, {cut.n})",)
    launch = Launch(name, grid, tuple(tensors), tuple(numbers), {"num_warps": cut.warps, "num_stages": cut.stages})
    return TritonKernel(body, launch, tuple(store.buffer.name for store in kernel.stores.values()))


@dataclass(frozen=True)
class _Cut:
    m: int
    n: int
    k: int
    warps: int
    stages: int


def _cut(node: Node, sizes: Sizes, settings: GpuSettings, channels: int) -> _Cut:
    full = node.values[0].dtype == "float32"
    m = settings.tile_m or max(16, min(128, power(sizes.of(shape_of(node)[1]))))
    n = settings.tile_n or 128
    k = settings.tile_k or (32 if full or channels % 64 else 64)
    stages = settings.stages or 3
    return _Cut(m, n, min(k, max(16, power(channels))), settings.warps or (8 if m * n >= 128 * 128 else 4), stages)


def _numbers(node: Node, x: Node, w: Node) -> list[tuple[str, str]]:
    """Sizes of the images, of the filters and of the result; of one dimension, the other has size 1."""
    batch, channels, *image = (python_poly(p) for p in shape_of(x))
    *taps, out, _ = (python_poly(p) for p in shape_of(w))
    result = [python_poly(p) for p in shape_of(node)[2:]]
    found = [("IMAGES", batch), ("CHANNELS", channels), ("FILTERS", out)]
    for names, values in ((("HEIGHT", "WIDTH"), image), (("TAPS_Y", "TAPS_X"), taps), (("OUT_Y", "OUT_X"), result)):
        found += zip(names, ["1", *values][-2:], strict=True)
    return found


def _with_result(node: Node, user: Kernel | None) -> Tile:
    """The user's kernel with the accumulator instead of the result in memory; else one that stores it.

    Filters are its rows; images and their positions are its columns.
    """
    shape = shape_of(node)
    dims = squeezed(shape)
    acc = Scalar("result", "float32", data=RESULT)
    filters = [d for d, size in enumerate(shape) if size != ONE].index(1)
    columns = frozenset(d for d in range(len(dims)) if d != filters)
    if user is None:
        offset = linear([variable(f"i{d}") for d in range(len(dims))], dims)
        store = Store(Buffer(node.name, node.values[0].dtype, shape), offset, acc, "element")
        return Tile(pname(f"convolution_{node.name}"), 0, dims, columns, {}, {node.name: store})

    def change(value: Scalar) -> Scalar | None:
        return acc if value.op == "load" and value.data[0] == node.name else None

    stores = {n: replace(s, value=rewrite(s.value, change)) for n, s in user.stores.items()}
    return Tile(user.name, user.rank, dims, columns, {}, stores, user.nodes)


def _after(
    node: Node, kernel: Tile, cut: _Cut, settings: GpuSettings, needs: TritonNeeds
) -> tuple[list[str], dict[str, str]]:
    """Statements that use the accumulator, and the buffers that they read."""
    rows = RowWriter(kernel, Shape(max(2, cut.m), 0), settings, needs)
    rows.scope.results[RESULT] = "acc"
    rows.scope.taken |= _LOCALS
    return [*rows.passes(), *rows.drained(OUTSIDE)], buffers_read(kernel.roots())


RESULT = "convolution"
"""Name of the accumulator, as an expression refers to it."""
_LOCALS = {
    "acc", "rm", "rn", "rk", "x", "y", "w", "values", "step", "steps", "tap", "channel", "inside", "there", "image",
    "line", "column", "down", "tile_m", "tile_n", "row_mask", "col_mask",
}  # fmt: skip
"""Names that the text uses."""

_ADD = """
    acc += tl.load(ks_bias_ptr + rm, mask=rm < FILTERS, other=0.0).to(tl.float32)[:, None]"""

_BODY = """@triton.jit
def {name}({parameters}):
    down = (FILTERS + {m} - 1) // {m}
    tile_m = tl.program_id(0) % down
    tile_n = tl.program_id(0) // down
    rm = tile_m * {m} + tl.arange(0, {m})
    rn = tile_n * {n} + tl.arange(0, {n})
    rk = tl.arange(0, {k})
    column = rn % OUT_X
    line = (rn // OUT_X) % OUT_Y
    image = rn // (OUT_X * OUT_Y)
    there = image < IMAGES
    acc = tl.zeros([{m}, {n}], tl.float32)
    steps: tl.constexpr = (CHANNELS + {k} - 1) // {k}
    for step in range(0, TAPS_Y * TAPS_X * steps):
        # Positions of the window follow each other: most of what they read lies in the cache already.
        tap = step % (TAPS_Y * TAPS_X)
        channel = (step // (TAPS_Y * TAPS_X)) * {k} + rk
        y = line * {stride[0]} + (tap // TAPS_X) * {dilation[0]} - {padding[0]}
        x = column * {stride[1]} + (tap % TAPS_X) * {dilation[1]} - {padding[1]}
        inside = there & (y >= 0) & (y < HEIGHT) & (x >= 0) & (x < WIDTH)
        w = tl.load(
            ks_w_ptr + tap * (FILTERS * CHANNELS) + rm[:, None] * CHANNELS + channel[None, :],
            mask=(rm < FILTERS)[:, None] & (channel < CHANNELS)[None, :], other=0.0,
        )
        values = tl.load(
            ks_x_ptr + (image * (CHANNELS * HEIGHT * WIDTH) + y * WIDTH + x)[None, :]
            + channel[:, None] * (HEIGHT * WIDTH),
            mask=inside[None, :] & (channel < CHANNELS)[:, None], other=0.0,
        )
        acc = tl.dot(w, values, acc{precision}){add}
    rows = rm[:, None]
    cols = rn[None, :]
    row_mask = (rm < FILTERS)[:, None]
    col_mask = there[None, :]{after}"""
