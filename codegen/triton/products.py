"""Matrix products in Triton with what follows them fused: which products, how they are tiled, and their text."""

from dataclasses import dataclass, replace

from ...schemas import Node, Ref
from ..ir.loops import Kernel
from ..ir.poly import Poly, product
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.views import shape_of
from .epilogue import epilogue
from .power_of_two_split import can_split_rows, row_split_of
from .prepare import Sizes, power
from .prologue import Prologue, dimension_of, prologue
from .tunables import GpuSettings

_DTYPES = ("float32", "bfloat16", "float16")
_TIMES = 2
"""How often what comes before a product may be computed instead of once."""
WIDEST = 512
"""Longest row that a tile of a product may hold whole, for reductions behind it."""
SHORTEST = 256
"""Length from which on both sides pay for reading and writing the operands once more, for the 3xTF32 split."""
_TERMS = 1 << 30
"""Terms of all sums from which on they pay however short each sum is: what they are worth does not depend on that, but
two more launches do."""


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
    before: tuple[tuple[str, Prologue], ...] = ()
    """What makes the operands ``left`` and ``right``, where that is computed on their tiles."""

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
    row_split: tuple[int, ...] = ()
    """Widths of the parts that ``n`` consists of; empty: it is one."""


def is_product(node: Node) -> bool:
    """Whether the generator has a kernel for the operator."""
    if base_name(node.target) not in ("mm", "bmm") or node.op != "call":
        return False
    return all(meta.dtype in _DTYPES for meta in node.values) and all(isinstance(a, Ref) for a in node.args[:2])


def products(plan: Plan, sizes: Sizes, settings: GpuSettings, taken: set[str]) -> list[Product]:
    """Products that are worth a kernel: those with something to fuse, and fp32 ones that need not be exact fp32.

    Kernels in ``taken`` follow something else already.
    """
    matmuls: list[Product] = []
    for node in plan.externs:
        if not settings.templates or not is_product(node):
            continue
        matmul = _product(node, plan)
        user = _user(matmul, plan, sizes)
        if user is not None and (user.name in taken or _slows(user, matmul, sizes, settings)):
            user = None
        before = _before(replace(matmul, user=user), plan, sizes, settings, taken)
        if user is None and not before and not _is_worth_it(matmul, sizes, settings):
            continue
        taken = {*taken, *(p.kernel.name for _, p in before), *([] if user is None else [user.name])}
        matmuls.append(replace(matmul, user=user, before=before))
    return matmuls


def _before(
    matmul: Product, plan: Plan, sizes: Sizes, settings: GpuSettings, taken: set[str]
) -> tuple[tuple[str, Prologue], ...]:
    """Operands that are made on their tiles: where few tiles need them, for each makes them anew."""
    if settings.prologue == "none" or is_split_ahead(matmul, sizes, settings):
        return ()
    tiles = tiles_of(matmul, sizes, settings)
    sides = (
        ("left", matmul.left, matmul.batch * matmul.m, matmul.k, -(-sizes.of(matmul.n) // tiles.n)),
        ("right", matmul.right, matmul.batch * matmul.k, matmul.n, -(-sizes.of(matmul.m) // tiles.m)),
    )
    prologues = []
    for side, operand, rows, columns, times in sides:
        candidate = prologue(operand, matmul.node.name, rows, columns, plan)
        free = candidate is not None and candidate.kernel is not matmul.user and candidate.kernel.name not in taken
        if candidate is not None and free and (times <= _TIMES or settings.prologue == "all"):
            prologues.append((side, candidate))
    return tuple(prologues)


def is_split_ahead(matmul: Product, sizes: Sizes, settings: GpuSettings) -> bool:
    """Whether a product is computed from the 3xTF32 split of its operands (:mod:`.split_3xtf32`)."""
    full = matmul.node.values[0].dtype == "float32" and settings.halves and settings.precision == "tf32x3"
    alone = not settings.stream_k and settings.split_k < 2 and (matmul.user is None or matmul.user.reduced is None)
    m, n, k = (sizes.of(size) for size in (matmul.m, matmul.n, matmul.k))
    long = k >= SHORTEST or (k >= 32 and sizes.of(matmul.batch) * m * n * k >= _TERMS)
    return full and alone and long and min(m, n) >= SHORTEST


def _slows(user: Kernel, matmul: Product, sizes: Sizes, settings: GpuSettings) -> bool:
    """Whether a product gains more by the 3xTF32 split than it would by reducing its rows in the same kernel."""
    return user.reduced is not None and is_split_ahead(matmul, sizes, settings)


def _is_worth_it(matmul: Product, sizes: Sizes, settings: GpuSettings) -> bool:
    """Whether a product with nothing to fuse may beat PyTorch's."""
    if matmul.node.values[0].dtype == "float32":
        return settings.precision != "ieee"
    short = min(sizes.of(matmul.m), sizes.of(matmul.n), sizes.of(matmul.k)) <= 64
    return settings.plain == "all" or (settings.plain == "narrow" and short)


def _product(node: Node, plan: Plan) -> Product:
    left, right = (a.name for a in node.args[:2] if isinstance(a, Ref))
    *batch, m, k = shape_of(plan.nodes[left])
    n = shape_of(plan.nodes[right])[-1]
    return Product(node, left, right, product(batch), m, n, k, None)


def _user(matmul: Product, plan: Plan, sizes: Sizes) -> Kernel | None:
    """The kernel that follows the product on its tiles, if there is one."""
    kernel = epilogue(matmul.node, plan)
    if kernel is None or split_at(kernel, matmul) is None:
        return None
    if kernel.reduced is None:
        return kernel
    fits = kernel.inner == tuple(range(split_at(kernel, matmul) or 0, len(kernel.dims))) and bool(kernel.outer)
    full = any(a.level == "full" for a in kernel.accumulations.values())
    return kernel if fits and not full and sizes.is_backed(matmul.n) and 16 <= sizes.of(matmul.n) <= WIDEST else None


def split_at(kernel: Kernel, matmul: Product) -> int | None:
    """The dimension from which on the kernel's dimensions are the product's columns."""
    return dimension_of(kernel, matmul.batch * matmul.m, matmul.n)


def tiles_of(matmul: Product, sizes: Sizes, settings: GpuSettings) -> Tiles:
    """Tiles for an H200, smaller where the matrix is."""
    m, n, k = sizes.of(matmul.m), sizes.of(matmul.n), sizes.of(matmul.k)
    full = matmul.node.values[0].dtype == "float32"
    rows = matmul.user is not None and matmul.user.reduced is not None
    row_split = _row_split(matmul, n, settings) if rows else ()
    tile_n = min(settings.tile_n or (128 if full or n < 512 or m <= 64 else 256), max(16, power(n)))
    if rows:
        tile_n = sum(row_split) or power(n)
    tile_m = min(settings.tile_m or (128 if tile_n <= 256 else 64), max(16, power(m)))
    most = 64 * 256 if rows else 128 * 256
    while not settings.tile_m and tile_m > 16 and (tile_m * tile_n > most or _wastes(m, tile_m)):
        tile_m //= 2
    tile_k = min(settings.tile_k or (32 if full else 64), max(16, power(k)))
    warps = settings.warps or (8 if tile_m * tile_n >= 128 * 128 else 4)
    loads = _loads_of_operands(matmul)
    stage_bytes = (tile_m * loads["left"] + tile_n * loads["right"]) * tile_k * (4 if full else 2)
    stages = settings.stages or max(1, min(4, 200_000 // stage_bytes))
    return Tiles(tile_m, tile_n, tile_k, warps, stages, row_split)


def _loads_of_operands(matmul: Product) -> dict[str, int]:
    """How many tiles are on their way for each operand: what makes one on its tiles may read several."""
    before = {
        side: len({n.key for r in p.kernel.roots() for n in r.walk() if n.op == "load"}) for side, p in matmul.before
    }
    return {side: max(1, before.get(side, 1)) for side in ("left", "right")}


def _wastes(m: int, tile: int) -> bool:
    """Whether tiles of half the size would cover clearly fewer rows."""
    return tile > 64 and 8 * (-(-m // tile) * tile) > 9 * (-(-2 * m // tile) * tile // 2)


def _row_split(matmul: Product, n: int, settings: GpuSettings) -> tuple[int, ...]:
    """Parts of a tile that holds whole rows; shares of stream-K are handed on as one."""
    simple = matmul.user is not None and can_split_rows(list(matmul.user.accumulations.values()))
    return row_split_of(n) if simple and settings.pieces != "none" and not settings.stream_k else ()
