"""Pointwise kernels in Triton: one index over everything, or tiles of rows and columns."""

from dataclasses import dataclass

from ..ir.loops import Kernel
from ..ir.poly import ONE, product
from ..ir.scalar import walk_all
from .prepare import BUSY, Sizes, power
from .scope import OUTSIDE, Axis, TritonScope
from .text import TritonNeeds
from .tunables import GpuSettings

_MANY_LOADS = 8
_CROSSED, _SMALL = 8192, 2048
"""Elements of a tile that is read along its rows and written along its columns; where many loads are under way in it,
or tiles are too few to keep a device busy."""
_LONG = 512
"""Columns from which on such a tile has more of them than rows."""
_ACCESSES = 2048
"""Bytes of a program of four warps: one access of 16 bytes a thread. ReLU of 13 GB takes 1.5 % less than with two."""


@dataclass(frozen=True)
class PointShape:
    """How a pointwise kernel is cut into programs."""

    rows: int
    """Rows of a tile; 0: one index over everything."""
    block: int
    """Elements, or columns, of a tile."""
    warps: int = 0
    """Warps of a program; 0: by the tile."""


def shape_of_points(kernel: Kernel, sizes: Sizes, settings: GpuSettings) -> PointShape:
    """The cut that the settings ask for, at the main shape."""
    last = sizes.of(kernel.dims[-1]) if kernel.dims else 1
    elements = sizes.of(product(kernel.dims))
    crossed = _crossed(kernel)
    # Rows that do not begin at whole vectors of memory are no rows to go by.
    tiled = bool(crossed) or (len(kernel.dims) > 1 and last >= 128 and last % 4 == 0)
    if settings.pointwise != "auto":
        tiled = settings.pointwise == "tile" and len(kernel.dims) > 1
    loads = sum(node.op == "load" for node in walk_all(kernel.roots()))
    if loads >= _MANY_LOADS and not crossed:
        return _few(tiled, last, loads, settings)
    if not tiled:
        return PointShape(0, settings.block or (_ACCESSES // _width(kernel) if elements >= 1 << 20 else 256))
    if crossed:
        is_small = loads >= _MANY_LOADS or elements < BUSY * settings.multiprocessors * _CROSSED
        most = _SMALL if is_small else _CROSSED if loads < _MANY_LOADS // 2 else _CROSSED // 2
        return _crossed_tile(sizes.of(kernel.dims[crossed[0]]), last, most, settings)
    columns = min(power(last), settings.block or 1024)
    return PointShape(settings.rows or max(1, 2048 // columns), columns)


def _width(kernel: Kernel) -> int:
    """Bytes of the narrowest element written, 2 or 4."""
    halves = {"bfloat16", "float16"}
    return 2 if any(store.buffer.dtype in halves for store in kernel.stores.values()) else 4


def _few(tiled: bool, last: int, loads: int, settings: GpuSettings) -> PointShape:
    """One element a thread, or two: each has loads enough of its own under way.

    Pooling on an H200, instead of eight or sixteen elements a thread: 4.5 ms -> 2.5 (16 loads), 2.5 -> 1.4 and
    19 -> 3.0 (27).
    """
    warps = 8 if loads >= 2 * _MANY_LOADS else 4
    if not tiled:
        return PointShape(0, settings.block or 256, warps)
    columns = min(power(last), settings.block or 128)
    return PointShape(settings.rows or max(1, 256 // columns), columns, warps)


def _crossed_tile(beside: int, last: int, most: int, settings: GpuSettings) -> PointShape:
    """A tile of about ``most`` elements, read along ``beside`` rows and written along ``last`` columns: both in long
    pieces. Three channels of a picture, moved to the end, are a narrow tile of many rows.

    64 x 128 instead of 32 x 64: 128 channels of 64,516 places to the usual order took 537 us instead of 554 (H200;
    copying takes 523). Back to few channels it is 128 x 64. Rows that begin anywhere share what is fetched and written
    at once with their neighbours, less so in 32 x 256: 64 channels of 263,169 places took 1187 us instead of 1325.
    """
    longest = 128 if last % 4 == 0 else 256
    block = min(settings.block or (longest if last >= _LONG and most > _SMALL else 64), longest, power(last))
    rows = min(max(_SMALL // block, min(256, most // block)), power(beside))
    if not settings.block:
        block = max(block, min(power(last), most // 2 // rows))
    return PointShape(settings.rows or rows, block)


def _crossed(kernel: Kernel) -> list[int]:
    """The dimension along which something is read, other than the last one; empty if there is none."""
    last = f"i{len(kernel.dims) - 1}"
    for node in walk_all(kernel.roots()):
        if node.op != "load" or last not in node.polys[0].names or node.polys[0].coefficient(last) == ONE:
            continue
        for dim in range(len(kernel.dims) - 1):
            if node.polys[0].coefficient(f"i{dim}") == ONE:
                return [dim]
    return []


class PointWriter:
    """Writes the body of one pointwise kernel."""

    def __init__(self, kernel: Kernel, shape: PointShape, settings: GpuSettings, needs: TritonNeeds) -> None:
        self.kernel = kernel
        self.shape = shape
        self.settings = settings
        names = tuple(f"i{d}" for d in range(len(kernel.dims)))
        if shape.rows:
            # Rows beside each other are beside each other in memory, where something is read across the last dimension.
            crossed = _crossed(kernel)
            order = sorted(range(len(names) - 1), key=lambda d: d in crossed)
            axes = [
                Axis("rows", tuple(names[d] for d in order), tuple(kernel.dims[d] for d in order), "row_mask"),
                Axis("cols", names[-1:], kernel.dims[-1:], "col_mask"),
            ]
            inner = {names[-1], "cols"}
        else:
            axes = [Axis("cols", names, kernel.dims, "col_mask")]
            inner = {*names, "cols"}
        self.scope = TritonScope(needs, axes, inner)
        self.scope.one_level = True

    @property
    def count(self) -> str:
        """Rows of a tiled kernel."""
        return f"({self.scope.index(product(self.kernel.dims[:-1]))})"

    @property
    def length(self) -> str:
        """Columns of a tiled kernel, elements of a flat one."""
        return f"({self.scope.index(product(self.kernel.dims[-1:] if self.shape.rows else self.kernel.dims))})"

    def lines(self) -> list[str]:
        """The body."""
        head = self._tile() if self.shape.rows else self._flat()
        stores = list(self.kernel.stores.values())
        self.scope.count([s.value for s in stores])
        texts = []
        for store in stores:
            text = self.scope.store(store, ".cs" if self.settings.stream else "")
            texts += [*self.scope.lines[OUTSIDE], text]
            self.scope.lines[OUTSIDE] = []
        return [*head, *texts]

    def _flat(self) -> list[str]:
        if not self.kernel.dims:
            return []
        return [
            "tile = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)",
            f"cols = tile * {self.shape.block} + tl.arange(0, {self.shape.block})",
            f"col_mask = tl.full([{self.shape.block}], True, tl.int1) if EVEN else cols < {self.length}",
        ]

    def _tile(self) -> list[str]:
        rows, block = self.shape.rows, self.shape.block
        return [
            f"across = ({self.length} + {block - 1}) // {block}",
            "tile = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)",
            f"rows = (tile // across) * {rows} + tl.arange(0, {rows})[:, None]",
            f"cols = (tile % across) * {block} + tl.arange(0, {block})[None, :]",
            f"row_mask = rows < {self.count}",
            f"col_mask = tl.full([1, {block}], True, tl.int1) if EVEN else cols < {self.length}",
        ]
