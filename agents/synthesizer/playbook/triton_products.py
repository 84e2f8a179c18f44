"""Matrix products in Triton with what follows them fused: which products, how they are tiled, and their text."""

from dataclasses import dataclass, replace

from ....schemas import Node, Ref
from .loops import Buffer, Kernel, Store
from .pointwise import base_name
from .poly import ONE, Poly, product, variable
from .printing import python_poly
from .regions import Plan
from .scalar import Scalar, rewrite
from .triton_knobs import GpuSettings
from .triton_prepare import Sizes, Tile
from .triton_rows import RowWriter, Shape, power
from .triton_scope import OUTSIDE, pname
from .triton_text import TritonNeeds
from .views import linear, shape_of

RESULT = "product"
"""Name of the accumulator, as an expression refers to it."""
_DTYPES = ("float32", "bfloat16", "float16")
WIDEST = 512
"""Longest row that a tile of a product may hold whole, for reductions behind it."""


@dataclass(frozen=True)
class Product:
    """``mm`` or ``bmm`` and the kernel that takes its result, if one does."""

    node: Node
    left: str
    right: str
    batch: Poly
    m: Poly
    n: Poly
    k: Poly
    user: Kernel | None

    @property
    def batched(self) -> bool:
        """Whether the operands have a dimension of batches."""
        return base_name(self.node.target) == "bmm"


@dataclass(frozen=True)
class Tiles:
    """How a product is cut into programs."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


def is_product(node: Node) -> bool:
    """Whether the playbook has a kernel for the operator."""
    if base_name(node.target) not in ("mm", "bmm") or node.op != "call":
        return False
    return all(meta.dtype in _DTYPES for meta in node.values) and all(isinstance(a, Ref) for a in node.args[:2])


def products(plan: Plan, sizes: Sizes, settings: GpuSettings) -> list[Product]:
    """Products that are worth a kernel: those with something to fuse, and fp32 ones that need not be exact fp32."""
    found: list[Product] = []
    taken: set[str] = set()
    for node in plan.externs:
        if not settings.templates or not is_product(node):
            continue
        one = _product(node, plan)
        user = _user(one, plan, sizes)
        if user is not None and user.name in taken:
            user = None
        if user is None and not _is_worth_it(one, sizes, settings):
            continue
        if user is not None:
            taken.add(user.name)
        found.append(replace(one, user=user))
    return found


def _is_worth_it(one: Product, sizes: Sizes, settings: GpuSettings) -> bool:
    """Whether a product with nothing to fuse may beat PyTorch's."""
    if one.node.values[0].dtype == "float32":
        return settings.precision != "ieee"
    short = min(sizes.of(one.m), sizes.of(one.n), sizes.of(one.k)) <= 64
    return settings.plain == "all" or (settings.plain == "narrow" and short)


def _product(node: Node, plan: Plan) -> Product:
    left, right = (a.name for a in node.args[:2] if isinstance(a, Ref))
    *batch, m, k = shape_of(plan.nodes[left])
    n = shape_of(plan.nodes[right])[-1]
    return Product(node, left, right, product(batch), m, n, k, None)


def _user(one: Product, plan: Plan, sizes: Sizes) -> Kernel | None:
    """The only kernel that reads the product, if it reads the element that it writes."""
    from .in_place import _only_user

    name = one.node.name
    readers = [k for k in plan.kernels if any(_loads(root, name) for root in k.roots())]
    if len(readers) != 1 or not isinstance(readers[0], Kernel) or not _only_user(plan, readers[0], name):
        return None
    kernel = readers[0]
    if kernel.name in {k.name for k in plan.kernels if not isinstance(k, Kernel)} or _split_at(kernel, one) is None:
        return None
    whole = linear(kernel.variables, kernel.dims)
    if any(load.polys[0] != whole for root in kernel.roots() for load in _loads(root, name)):
        return None
    if kernel.reduced is None:
        return kernel
    fits = kernel.inner == tuple(range(_split_at(kernel, one) or 0, len(kernel.dims))) and bool(kernel.outer)
    full = any(a.level == "full" for a in kernel.accumulations.values())
    return kernel if fits and not full and sizes.known(one.n) and 16 <= sizes.of(one.n) <= WIDEST else None


def _loads(root: Scalar, name: str) -> list[Scalar]:
    return [node for node in root.walk() if node.op == "load" and node.data[0] == name]


def _split_at(kernel: Kernel, one: Product) -> int | None:
    """The dimension from which on the kernel's dimensions are the product's columns."""
    for place in range(len(kernel.dims) + 1):
        if product(kernel.dims[place:]) == one.n and product(kernel.dims[:place]) == one.batch * one.m:
            return place
    return None


def tiles_of(one: Product, sizes: Sizes, settings: GpuSettings) -> Tiles:
    """Tiles for an H200, smaller where the matrix is."""
    m, n, k = sizes.of(one.m), sizes.of(one.n), sizes.of(one.k)
    full = one.node.values[0].dtype == "float32"
    rows = one.user is not None and one.user.reduced is not None
    tile_n = (
        power(n) if rows else min(settings.tile_n or (128 if full or n < 512 or m <= 64 else 256), max(16, power(n)))
    )
    tile_m = min(settings.tile_m or (128 if tile_n <= 256 else 64), max(16, power(m)))
    most = 64 * 256 if rows else 128 * 256
    while not settings.tile_m and tile_m > 16 and tile_m * tile_n > most:
        tile_m //= 2
    tile_k = min(settings.tile_k or (32 if full else 64), max(16, power(k)))
    warps = settings.warps or (8 if tile_m * tile_n >= 128 * 128 else 4)
    stage_bytes = (tile_m + tile_n) * tile_k * (4 if full else 2)
    stages = settings.stages or max(2, min(4, 200_000 // stage_bytes))
    return Tiles(tile_m, tile_n, tile_k, warps, stages)


class ProductWriter:
    """Writes the body of one product."""

    def __init__(self, one: Product, tiles: Tiles, settings: GpuSettings, needs: TritonNeeds) -> None:
        self.one = one
        self.tiles = tiles
        self.settings = settings
        self.kernel = self._with_result()
        shape = Shape(max(2, tiles.m), 0)
        self.rows = RowWriter(self.kernel, shape, settings, needs)
        self.scope = self.rows.scope
        self.scope.streams = set()
        self.scope.results[RESULT] = "acc"
        self.scope.taken |= {"acc", "batch", "rm", "rn", "rk", "left", "right", "x", "y"}

    def _with_result(self) -> Tile:
        """The user's kernel with the accumulator instead of the product in memory; else one that stores it."""
        one, user = self.one, self.one.user
        acc = Scalar("result", "float32", data=RESULT)
        if user is None:
            dims = (one.batch * one.m, one.n)
            shape = shape_of(one.node)
            offset = linear((variable("i0"), variable("i1")), dims)
            store = Store(Buffer(one.node.name, one.node.values[0].dtype, shape), offset, acc, "element")
            return Tile(pname(f"product_{one.node.name}"), 0, dims, frozenset({1}), {}, {one.node.name: store})

        def change(value: Scalar) -> Scalar | None:
            return acc if value.op == "load" and value.data[0] == one.node.name else None

        place = _split_at(user, one) or 0
        return Tile(
            user.name,
            user.rank,
            user.dims,
            user.reduced or frozenset(range(place, len(user.dims))),
            {n: replace(a, body=rewrite(a.body, change)) for n, a in user.accumulations.items()},
            {n: replace(s, value=rewrite(s.value, change)) for n, s in user.stores.items()},
            user.nodes,
        )

    def lines(self) -> list[str]:
        """The body."""
        index = self.scope.index
        m, n, k = (f"({index(p)})" for p in (self.one.m, self.one.n, self.one.k))
        t = self.tiles
        return [
            *self._place(m, n),
            f"rm = tile_m * {t.m} + tl.arange(0, {t.m})",
            f"rn = tile_n * {t.n} + tl.arange(0, {t.n})",
            f"rk = tl.arange(0, {t.k})",
            f"left = left_ptr + batch * left_b + (rm % {m})[:, None] * left_m + rk[None, :] * left_k",
            f"right = right_ptr + batch * right_b + rk[:, None] * right_k + (rn % {n})[None, :] * right_n",
            f"acc = tl.zeros([{t.m}, {t.n}], tl.float32)",
            f"for step in range(0, tl.cdiv({k}, {t.k})):",
            "    if EVEN_K:",
            "        x = tl.load(left)",
            "        y = tl.load(right)",
            "    else:",
            f"        inside = rk < {k} - step * {t.k}",
            "        x = tl.load(left, mask=inside[None, :], other=0.0)",
            "        y = tl.load(right, mask=inside[:, None], other=0.0)",
            f'    acc = tl.dot(x, y, acc, input_precision="{self.settings.precision}")'
            if self.one.node.values[0].dtype == "float32"
            else "    acc = tl.dot(x, y, acc)",
            f"    left += {t.k} * left_k",
            f"    right += {t.k} * right_k",
            f"rows = (batch * {m} + rm)[:, None]",
            "cols = rn[None, :]",
            f"row_mask = (rm < {m})[:, None]",
            f"col_mask = (rn < {n})[None, :]",
            *self._after(),
        ]

    def _place(self, m: str, n: str) -> list[str]:
        t = self.tiles
        return [
            "batch = tl.program_id(1).to(tl.int64)",
            f"down = tl.cdiv({m}, {t.m})",
            f"across = tl.cdiv({n}, {t.n})",
            f"width = {self.settings.group} * across",
            "first = (tl.program_id(0) // width) * " + str(self.settings.group),
            f"group = tl.minimum(down - first, {self.settings.group})",
            "tile_m = first + (tl.program_id(0) % width) % group",
            "tile_n = (tl.program_id(0) % width) // group",
        ]

    def _after(self) -> list[str]:
        return [*self.rows._passes(), *self._drained()]

    def _drained(self) -> list[str]:
        lines, self.scope.lines[OUTSIDE] = self.scope.lines[OUTSIDE], []
        return lines

    def strides(self) -> list[tuple[str, str]]:
        """Parameters for the operands' strides."""
        found = []
        for side, names in (("left", "mk"), ("right", "kn")):
            found += [(f"{side}_{names[0]}", "-2"), (f"{side}_{names[1]}", "-1"), (f"{side}_b", "0")]
        return found

    def grid(self) -> tuple[str, str]:
        """Programs of one product, and products."""
        m, n = python_poly(self.one.m), python_poly(self.one.n)
        return f"_cdiv({m}, {self.tiles.m}) * _cdiv({n}, {self.tiles.n})", python_poly(self.one.batch)


def is_single(one: Product) -> bool:
    """Whether there is one product only."""
    return one.batch == ONE
