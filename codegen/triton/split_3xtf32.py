"""fp32 products as three products of tf32 numbers (Ootomo and Yokota 2022, arXiv:2203.03341), split beforehand.

A kernel of its own writes each operand as the sum of two tf32 numbers, the summed dimension last, as the matrix units
want it: so the product's loads go past the registers. Rows of the split are filled up with zeros to whole blocks, so
that they begin at multiples of 16 bytes whatever the sizes are. Matrix units round sums towards zero and keep few bits
of them; each block's sum therefore begins at zero and is added up in fp32. A prototype on an H200, 4096 x 4096 x 4096:
1.46 ms and an error of 5.5e-7 of the largest element; cuBLAS in fp32 2.70 ms and 2.8e-6; tf32x3 from registers 3.9 ms.
"""

from dataclasses import dataclass, replace

from ..ir.loops import Buffer
from ..ir.poly import ONE, ZERO, Poly, floordiv, poly, product
from ..ir.printing import python_poly
from ..lowering.plan import Plan
from .function_text import function_text
from .launch import Launch, TritonKernel
from .layout import Layout, contiguous, layout_of
from .product_text import ProductWriter
from .products import Product, Tiles
from .rows import indent
from .scope import pname
from .text import TritonNeeds
from .tunables import GpuSettings

_SHARED_BYTES = 227 << 10
"""Shared memory of a program on an H100 or H200."""
_RESERVED = 1 << 10
"""What the driver keeps of it for each program."""
_AREA = 128 * 128
"""Elements of a tile whose two sums eight warps hold in registers."""
_TILE = 64
_BLOCK = 32
"""Multiples of which the split's rows are long."""
_SPLIT = f"""rows = (tl.program_id(0) * {_TILE} + tl.arange(0, {_TILE})).to(tl.int64)[:, None]
cols = (tl.program_id(1) * {_TILE} + tl.arange(0, {_TILE})).to(tl.int64)[None, :]
mask = (rows < count) & (cols < padded)
batch = tl.program_id(2).to(tl.int64)
x = tl.load(ks_x_ptr + batch * x_b + rows * x_r + cols * x_c, mask=mask & (cols < length), other=0.0)
high = ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
# What is infinite or no number stays as it is, and nothing is left over of it.
finite = (tl.abs(x) < float("inf")) & (tl.abs(high) < float("inf"))
high = tl.where(finite, high, x)
low = tl.where(finite, x - high, 0.0)
low = ((low.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
place = ks_halves_out + (batch * count + rows) * padded + cols
tl.store(place, high, mask=mask)
tl.store(place + whole, low, mask=mask)"""


def padded(length: Poly) -> Poly:
    """The next multiple of a block."""
    return floordiv(length + (_BLOCK - 1), poly(_BLOCK)) * _BLOCK


@dataclass(frozen=True)
class Split3xTF32:
    """The 3xTF32 split of one operand of a product."""

    matmul: Product
    side: str

    @property
    def count(self) -> Poly:
        """Rows of the left operand, columns of the right one."""
        return self.matmul.m if self.side == "left" else self.matmul.n

    @property
    def buffer(self) -> Buffer:
        """``(2, batch, count, k in whole blocks)``: high parts, then low ones."""
        shape = (poly(2), self.matmul.batch, self.count, padded(self.matmul.k))
        return Buffer(f"{self.matmul.node.name}_{self.side}_halves", "float32", shape)

    @property
    def elements(self) -> Poly:
        """Of either part."""
        return product(self.buffer.shape[1:])

    @property
    def layout(self) -> Layout:
        """The high parts, in the operand's order of dimensions."""
        batch, row, _ = contiguous(self.buffer.shape[1:])
        strides = (batch, row, ONE) if self.side == "left" else (batch, ONE, row)
        return Layout(self.buffer.name, None, strides, ZERO)

    def kernel(self, plan: Plan) -> TritonKernel:
        """Splits the operand."""
        value = self.matmul.left if self.side == "left" else self.matmul.right
        there = layout_of(value, plan)
        row, column = there.strides[-2:] if self.side == "left" else there.strides[:-3:-1]
        sizes = {
            "count": self.count,
            "length": self.matmul.k,
            "padded": padded(self.matmul.k),
            "whole": self.elements,
            "x_b": there.strides[0] if self.matmul.batched else ZERO,
            "x_r": row,
            "x_c": column,
        }
        numbers = [(name, python_poly(size)) for name, size in sizes.items()]
        name = pname(f"halves_{self.matmul.node.name}_{self.side}")
        tensors = (("ks_x_ptr", value, "float32"), ("ks_halves_out", self.buffer.name, "float32"))
        text = function_text(name, tensors, numbers, set(), _SPLIT.splitlines(), "each number as two of tf32")
        blocks = (f"_cdiv({python_poly(size)}, {_TILE})" for size in (self.count, padded(self.matmul.k)))
        grid = (*blocks, python_poly(self.matmul.batch))
        launch = Launch(name, grid, tensors, tuple(numbers), {"num_warps": 8}, {"ks_x_ptr": there})
        return TritonKernel(text, launch, (self.buffer.name,))


def splits_3xtf32(matmul: Product) -> tuple[Split3xTF32, Split3xTF32]:
    """Both operands."""
    return Split3xTF32(matmul, "left"), Split3xTF32(matmul, "right")


def with_room(tiles: Tiles, settings: GpuSettings) -> Tiles:
    """Tiles whose sum and whose block's sum registers hold, with as many stages as shared memory has room for."""
    n = min(tiles.n, _AREA // tiles.m)
    # Two programs of four warps share a multiprocessor: one adds and writes while the other multiplies.
    shared = _SHARED_BYTES // (2 if tiles.m * n <= _AREA // 2 and tiles.warps <= 4 else 1)
    room = (shared - _RESERVED) // (2 * 4 * (tiles.m + n) * tiles.k)
    return replace(tiles, n=n, stages=max(1, min(settings.stages or 4, room)))


class Split3xTF32Writer(ProductWriter):
    """Writes the product of operands that were split."""

    def __init__(self, matmul: Product, tiles: Tiles, settings: GpuSettings, needs: TritonNeeds) -> None:
        super().__init__(matmul, tiles, settings, needs)
        self.k = f"({self.scope.index(self.summed)})"

    @property
    def summed(self) -> Poly:
        """See :class:`ProductWriter`."""
        return padded(self.matmul.k)

    def value(self, side: str) -> str:
        """See :class:`ProductWriter`."""
        return Split3xTF32(self.matmul, side).buffer.name

    def layout(self, side: str, plan: Plan) -> Layout:
        """See :class:`ProductWriter`."""
        return Split3xTF32(self.matmul, side).layout

    def start(self) -> list[str]:
        """See :class:`ProductWriter`."""
        lows = [f"{split.side}_low = {self.scope.index(split.elements)}" for split in splits_3xtf32(self.matmul)]
        return [*lows, *super().start()]

    def load(self, name: str, pointer: str, mask: str) -> list[str]:
        """Both parts."""
        low = f"{pointer} + {pointer}_low"
        return [*super().load(name, pointer, mask), *super().load(f"{name}_low", low, mask)]

    def dot(self, part: str) -> list[str]:
        """Small products first; the product of the low parts is below what fp32 can hold."""
        precision = 'input_precision="tf32"'
        return [
            f"part = tl.dot(x_low, y, {precision})",
            f"part = tl.dot(x, y_low, part, {precision})",
            f"acc += tl.dot(x, y, part, {precision})",
        ]

    def _sum(self) -> list[str]:
        """All of the summed dimension, and what is infinite again from the high parts.

        Infinity times what is left over of the other number may have the other sign, or be no number.
        """
        body = [
            f"inside = rk < {self.k} - step * {self.tiles.k}",
            *super().load("x", "left", "inside[None, :]"),
            *super().load("y", "right", "inside[:, None]"),
            'again = tl.dot(x, y, again, input_precision="tf32")',
            f"left += {self.tiles.k} * left_k",
            f"right += {self.tiles.k} * right_k",
        ]
        rest = [
            *self._pointers(),
            f"again = tl.zeros([{self.tiles.m}, {self.tiles.n}], tl.float32)",
            f"for step in range(0, tl.cdiv({self.k}, {self.tiles.k})):",
            *indent(body),
            "acc = tl.where(acc == acc, acc, again)",
        ]
        return [*super()._sum(), "if tl.max(tl.max((acc != acc).to(tl.int32), 1), 0) > 0:", *indent(rest)]
