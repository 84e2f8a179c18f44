"""Convolutions as implicit matrix products in Triton: channels down, positions of all images across."""

from ....schemas import Arg, Graph, Items, Node, Ref
from .printing import python_poly
from .triton_knobs import GpuSettings
from .triton_launch import Launch, TritonKernel
from .triton_prepare import Sizes
from .triton_scope import pname
from .views import shape_of

CONVOLUTION = "ks.convolution"
"""A convolution over one or two dimensions; the weight comes as ``(kernel positions, out, in)``."""

_DTYPES = ("bfloat16", "float16")


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
    transposed, groups = node.args[6], node.args[8]
    plain = not transposed and groups == 1 and x.values[0].dtype in _DTYPES and rank in (1, 2)
    shape, example = w.values[0].shape, w.values[0].example
    if not plain or not example or any(len(p) != rank for p in (stride, padding, dilation)):
        return []
    if example[1] < 16 or _taps(example) > 49:
        return []
    order = (*range(2, rank + 2), 0, 1)
    permuted = w.values[0].__class__(
        shape=tuple(shape[d] for d in order), dtype=w.values[0].dtype, example=tuple(example[d] for d in order)
    )
    name = f"{node.name}_weight"
    weight = Node(
        name=name,
        op="call",
        target="aten.permute.default",
        args=(Ref(name=w.name), Items(items=order)),
        values=(permuted,),
    )
    args = (Ref(name=x.name), Ref(name=name), *node.args[2:3])
    kwargs: dict[str, Arg] = {
        "stride": Items(items=stride),
        "padding": Items(items=padding),
        "dilation": Items(items=dilation),
    }
    return [weight, Node(name=node.name, op="call", target=CONVOLUTION, args=args, kwargs=kwargs, values=node.values)]


def _taps(example: tuple[int, ...]) -> int:
    total = 1
    for size in example[2:]:
        total *= size
    return total


def _pair(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def convolution_kernel(
    node: Node, nodes: dict[str, Node], sizes: Sizes, settings: GpuSettings, conditions: list[str]
) -> TritonKernel:
    """The kernel of one convolution."""
    x, w, *bias = (a.name for a in node.args if isinstance(a, Ref))
    one = len(shape_of(nodes[x])) == 3
    batch, channels, *image = (python_poly(p) for p in shape_of(nodes[x]))
    *taps, out, _ = (python_poly(p) for p in shape_of(nodes[w]))
    result = [python_poly(p) for p in shape_of(node)[2:]]
    channels_example = sizes.of(shape_of(nodes[x])[1])
    out_example = sizes.of(shape_of(node)[1])
    tile_m = settings.tile_m or max(16, min(128, 1 << (out_example - 1).bit_length()))
    tile_n = settings.tile_n or 128
    tile_k = settings.tile_k or (32 if channels_example % 64 else 64)
    warps = settings.warps or (8 if tile_m * tile_n >= 128 * 128 else 4)
    name = pname(f"convolution_{node.name}")
    numbers = [("IMAGES", batch), ("CHANNELS", channels), ("FILTERS", out)]
    numbers += [("HEIGHT", "1" if one else image[0]), ("WIDTH", image[-1])]
    numbers += [("TAPS_Y", "1" if one else taps[0]), ("TAPS_X", taps[-1])]
    numbers += [("OUT_Y", "1" if one else result[0]), ("OUT_X", result[-1])]
    stride = _pair(_integers(node.kwargs["stride"]), 1)
    padding = _pair(_integers(node.kwargs["padding"]), 0)
    dilation = _pair(_integers(node.kwargs["dilation"]), 1)
    dtype = node.values[0].dtype
    body = _BODY.format(
        name=name,
        bias="bias_ptr, " if bias else "",
        m=tile_m,
        n=tile_n,
        k=tile_k,
        group=settings.group,
        stride=stride,
        padding=padding,
        dilation=dilation,
        add=_ADD if bias else "",
    )
    tensors = [("x_ptr", x, dtype), ("w_ptr", w, dtype)]
    tensors += [("bias_ptr", bias[0], dtype)] if bias else []
    tensors += [("out_ptr", node.name, dtype)]
    positions = " * ".join(f"({p})" for p in (batch, *result))
    grid = (f"_cdiv({out}, {tile_m}) * _cdiv({positions}, {tile_n})",)
    conditions.append(
        f"max({positions} * ({out}), {batch} * {channels} * {' * '.join(f'({p})' for p in image)}) < {2**31}"
    )
    options: dict[str, str | int] = {"num_warps": warps, "num_stages": settings.stages or 3}
    return TritonKernel(body, Launch(name, grid, tuple(tensors), tuple(numbers), options), (node.name,))


_ADD = """
    acc += tl.load(bias_ptr + rm, mask=rm < FILTERS, other=0.0).to(tl.float32)[:, None]"""

_BODY = """@triton.jit
def {name}(
    x_ptr, w_ptr, {bias}out_ptr, IMAGES, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, TAPS_Y: tl.constexpr, TAPS_X: tl.constexpr,
    OUT_Y: tl.constexpr, OUT_X: tl.constexpr,
):
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
        tap = step // steps
        channel = (step % steps) * {k} + rk
        y = line * {stride[0]} + (tap // TAPS_X) * {dilation[0]} - {padding[0]}
        x = column * {stride[1]} + (tap % TAPS_X) * {dilation[1]} - {padding[1]}
        inside = there & (y >= 0) & (y < HEIGHT) & (x >= 0) & (x < WIDTH)
        w = tl.load(
            w_ptr + tap * (FILTERS * CHANNELS) + rm[:, None] * CHANNELS + channel[None, :],
            mask=(rm < FILTERS)[:, None] & (channel < CHANNELS)[None, :], other=0.0,
        )
        values = tl.load(
            x_ptr + (image * (CHANNELS * HEIGHT * WIDTH) + y * WIDTH + x)[None, :]
            + channel[:, None] * (HEIGHT * WIDTH),
            mask=inside[None, :] & (channel < CHANNELS)[:, None], other=0.0,
        )
        acc = tl.dot(w, values, acc){add}
    place = image * (FILTERS * OUT_Y * OUT_X) + line * OUT_X + column
    tl.store(
        out_ptr + place[None, :] + rm[:, None] * (OUT_Y * OUT_X), acc,
        mask=there[None, :] & (rm < FILTERS)[:, None],
    )"""
