"""Stream-K (Osama et al. 2023, arXiv:2301.03598): every program takes an equal share of all blocks of all sums.

A tile whose sum lies in one program's share is finished there. Of every other tile, the programs leave their parts in a
buffer; a second kernel adds them up in their order, so that the result is the same every time.
"""

from ..ir.loops import Buffer
from ..ir.poly import poly
from ..ir.printing import python_poly
from .product_text import ProductWriter
from .products import Product, Tiles
from .rows import indent
from .scope import pname


def stream_scratch(matmul: Product, tiles: Tiles, programs: int) -> Buffer:
    """Where programs leave their parts: for each the tile that it goes on with, and the one that it begins."""
    return Buffer(f"{matmul.node.name}_parts", "float32", (poly(2 * programs), poly(tiles.m), poly(tiles.n)))


class StreamWriter(ProductWriter):
    """Writes the kernel of the shares."""

    @property
    def scratch(self) -> tuple[tuple[str, str, str], ...]:
        """See :class:`ProductWriter`."""
        name = stream_scratch(self.matmul, self.tiles, self.settings.multiprocessors).name
        return ((f"{pname(name)}_out", name, "float32"),)

    @property
    def _slot(self) -> str:
        """Addresses of part ``slot``."""
        ((parameter, _, _),) = self.scratch
        m, n = self.tiles.m, self.tiles.n
        inside = f"tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :]"
        return f"{parameter} + slot * {m * n} + {inside}"

    def share(self) -> list[str]:
        """Blocks in all, and those of a program."""
        return [
            *self.extent(),
            f"steps = tl.cdiv({self.k}, {self.tiles.k})",
            f"tiles = down * across * {self.batch}",
            f"share = tl.cdiv(tiles * steps, {self.settings.multiprocessors})",
        ]

    def at_tile(self) -> list[str]:
        """Where ``tile`` lies."""
        return [
            "batch = (tile // (down * across)).to(tl.int64)",
            "place = tile % (down * across)",
            *self.place("place"),
        ]

    def lines(self) -> list[str]:
        """See :class:`ProductWriter`."""
        return [
            *self.share(),
            "at = tl.program_id(0) * share",
            "end = tl.minimum(at + share, tiles * steps)",
            "while at < end:",
            *indent(
                [
                    "tile = at // steps",
                    "low = at % steps",
                    "high = tl.minimum(steps, low + end - at)",
                    *self.at_tile(),
                    *self.start(),
                    *self.skip(),
                    *self.steps("low", "high"),
                    "if (low == 0) & (high == steps):",
                    *indent(self.finish()),
                    "else:",
                    "    slot = 2 * tl.program_id(0) + (low == 0).to(tl.int32)",
                    f"    tl.store({self._slot}, acc)",
                    "at += high - low",
                ]
            ),
        ]

    def grid(self) -> tuple[str, ...]:
        """See :class:`ProductWriter`."""
        return (str(self.settings.multiprocessors),)


class StreamEndWriter(StreamWriter):
    """Writes the kernel that adds up the tiles which a program began and others went on with."""

    operands = False

    @property
    def name(self) -> str:
        """See :class:`ProductWriter`."""
        return f"{self.kernel.name}_end"

    def lines(self) -> list[str]:
        """See :class:`ProductWriter`."""
        return [
            *self.share(),
            "end = (tl.program_id(0) + 1) * share",
            "tile = (end - 1) // steps",
            "begin = tile * steps",
            "if (end < tiles * steps) & (end % steps != 0) & (begin >= end - share):",
            *indent(
                [
                    "slot = 2 * tl.program_id(0) + 1",
                    f"acc = tl.load({self._slot})",
                    "other = tl.program_id(0) + 1",
                    "while other * share < begin + steps:",
                    "    slot = 2 * other",
                    f"    acc += tl.load({self._slot})",
                    "    other += 1",
                    *self.at_tile(),
                    *self.finish(),
                ]
            ),
        ]


def fits(matmul: Product) -> str:
    """What must hold of the sizes: blocks are counted in 32 bits."""
    return f"({python_poly(matmul.batch)}) * ({python_poly(matmul.m)}) * ({python_poly(matmul.n)}) < {2**31}"
