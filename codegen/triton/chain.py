"""``(A B) C`` with a small ``A B`` as one node of the graph, and its Triton kernel: ``A B`` stays on the chip."""

from dataclasses import dataclass

from msgspec import structs

from ...hardware.machine.work import refs, uses
from ...schemas import Node, Ref
from ..ir.printing import python_poly
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.views import shape_of
from .launch import Launch, TritonKernel
from .layout import Layout, layout_of
from .prepare import power
from .scope import pname
from .tunables import GpuSettings

CHAIN = "ks.chain"
"""``bmm(bmm(a, b), c)``, the product in between rounded as if it were stored."""

_SMALL = 128
"""Most rows and columns of what is in between: a program holds all of it."""
_DTYPES = ("bfloat16", "float16")


def fuse_chains(nodes: list[Node], multiprocessors: int) -> list[Node]:
    """The nodes with chains of two batched products as single ones, where each has a batch for every multiprocessor."""
    by_name = {node.name: node for node in nodes}
    used = uses(nodes)
    chains: dict[str, Node] = {}
    gone: set[str] = set()
    for node in nodes:
        inner = _inner(node, by_name, multiprocessors)
        if inner is not None and used[inner.name] == 1:
            chains[node.name] = structs.replace(node, target=CHAIN, args=(*inner.args, node.args[1]))
            gone.add(inner.name)
    return [chains.get(node.name, node) for node in nodes if node.name not in gone]


def _inner(node: Node, nodes: dict[str, Node], multiprocessors: int) -> Node | None:
    """The first of two products that ``node`` is the second of, where both fit one program."""
    if not _is_product(node):
        return None
    inner = nodes[next(refs(node.args))]
    if not _is_product(inner) or not all(_is_half(nodes[name]) for name in refs((*inner.args, *node.args))):
        return None
    batch, rows, middle = inner.values[0].example
    return inner if batch >= multiprocessors and max(rows, middle) <= _SMALL else None


def _is_product(node: Node) -> bool:
    half = base_name(node.target) == "bmm" and node.op == "call" and _is_half(node)
    return half and all(isinstance(a, Ref) for a in node.args)


def _is_half(node: Node) -> bool:
    return bool(node.values) and node.values[0].dtype in _DTYPES and bool(node.values[0].example)


@dataclass(frozen=True)
class _Cut:
    rows: int
    middle: int
    inner: int
    """Terms of the first product at once."""
    columns: int
    """Columns of the result at once."""
    warps: int
    stages: int


def _cut(node: Node, nodes: dict[str, Node], settings: GpuSettings) -> _Cut:
    a, b, _ = (nodes[name].values[0].example for name in refs(node.args))
    rows, middle = max(16, power(a[1])), max(16, power(b[2]))
    inner = min(settings.tile_k or 64, max(16, power(a[2])))
    # Of 24 rows 256 columns at once take 0.089 ms, 128 0.115; of 40 and 48 rows 128 are best (OptFM, H200).
    between = rows * middle
    columns = settings.tile_n or (256 if between <= 32 * 32 else 128 if between <= 64 * 64 else 64)
    return _Cut(rows, middle, inner, columns, settings.warps or 4, settings.stages or 3)


def chain_kernel(node: Node, plan: Plan, settings: GpuSettings, conditions: list[str]) -> TritonKernel:
    """The kernel of one chain: a product for every program, the columns of its result in blocks."""
    nodes = plan.nodes
    a, b, c = refs(node.args)
    cut = _cut(node, nodes, settings)
    batch, rows, inner = map(python_poly, shape_of(nodes[a]))
    middle, columns = python_poly(shape_of(nodes[b])[-1]), python_poly(shape_of(nodes[c])[-1])
    numbers = [("ROWS", rows), ("MIDDLE", middle), ("INNER", inner), ("COLUMNS", columns)]
    conditions += [f"{rows} <= {cut.rows}", f"{middle} <= {cut.middle}"]
    layouts = {f"{letter}_ptr": layout_of(name, plan) for letter, name in (("a", a), ("b", b), ("c", c))}
    strides = _strides(layouts)
    name = pname(f"chain_{node.name}")
    body = _BODY.format(
        name=name,
        strides=", ".join(parameter for parameter, _ in strides),
        rows=cut.rows,
        middle=cut.middle,
        inner=cut.inner,
        columns=cut.columns,
    )
    tensors = [(f"{letter}_ptr", name, nodes[name].values[0].dtype) for letter, name in (("a", a), ("b", b), ("c", c))]
    tensors.append(("out_ptr", node.name, node.values[0].dtype))
    options: dict[str, str | int] = {"num_warps": cut.warps, "num_stages": cut.stages}
    launch = Launch(name, (batch,), tuple(tensors), (*numbers, *strides), options, layouts)
    return TritonKernel(body, launch, (node.name,))


def _strides(layouts: dict[str, Layout]) -> list[tuple[str, str]]:
    """Strides of the operands in memory, by parameter: of a product, a row and a column."""
    return [
        (f"{parameter[0]}_{part}", python_poly(stride))
        for parameter, layout in layouts.items()
        for part, stride in zip("brc", layout.strides, strict=True)
    ]


_BODY = """@triton.jit
def {name}(
    a_ptr, b_ptr, c_ptr, out_ptr, ROWS: tl.constexpr, MIDDLE: tl.constexpr, INNER: tl.constexpr,
    COLUMNS: tl.constexpr, {strides},
):
    # (a @ b) @ c
    batch = tl.program_id(0).to(tl.int64)
    rm = tl.arange(0, {rows})
    rs = tl.arange(0, {middle})
    rk = tl.arange(0, {inner})
    rows = (rm < ROWS)[:, None]
    a_ptr += batch * a_b + rm[:, None] * a_r
    b_ptr += batch * b_b + rs[None, :] * b_c
    acc = tl.zeros([{rows}, {middle}], tl.float32)
    for start in range(0, INNER, {inner}):
        at = start + rk
        x = tl.load(a_ptr + at[None, :] * a_c, mask=rows & (at < INNER)[None, :], other=0.0)
        y = tl.load(b_ptr + at[:, None] * b_r, mask=(at < INNER)[:, None] & (rs < MIDDLE)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    between = acc.to(a_ptr.dtype.element_ty)
    c_ptr += batch * c_b + rs[:, None] * c_r
    out_ptr += batch * ROWS * COLUMNS + rm[:, None] * COLUMNS
    for start in range(0, COLUMNS, {columns}):
        rn = start + tl.arange(0, {columns})
        z = tl.load(c_ptr + rn[None, :] * c_c, mask=(rs < MIDDLE)[:, None] & (rn < COLUMNS)[None, :], other=0.0)
        out = tl.dot(between, z)
        tl.store(out_ptr + rn[None, :], out, mask=rows & (rn < COLUMNS)[None, :])"""
