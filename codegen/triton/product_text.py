"""The text of matrix products in Triton: a tile of the result for every program, and what follows it."""

from ..ir.loops import Buffer
from ..ir.poly import Poly
from ..ir.printing import python_poly
from ..lowering.plan import Plan
from .epilogue import SUMS, finishing
from .layout import Layout, layout_of
from .prepare import Tile
from .products import Product, Tiles, split_at
from .prologue import PrologueWriter
from .row_shape import Shape
from .rows import RowWriter, indent
from .scope import OUTSIDE, pname
from .text import TritonNeeds
from .tunables import GpuSettings

_LOCALS = {
    "acc", "batch", "rm", "rn", "rk", "left", "right", "x", "y", "steps", "step", "share", "low", "high", "inside",
    "down", "across", "width", "first", "group", "tile", "tiles", "place", "tile_m", "tile_n", "row_mask", "col_mask",
    "at", "end", "begin", "other", "slot", "base", "part", "x_low", "y_low", "left_low", "right_low",
    "again",
    *(f"{name}{part}" for name in ("acc", "rn", "right", "y") for part in range(3)),
}  # fmt: skip
"""Names that the text uses."""


class ProductWriter:
    """Writes the body of one product; of its sum in parts, each with a result of its own, where ``parts`` is given."""

    operands = True
    """Whether it multiplies: else it adds up what others did."""

    def __init__(
        self, matmul: Product, tiles: Tiles, settings: GpuSettings, needs: TritonNeeds, parts: Buffer | None = None
    ) -> None:
        self.matmul = matmul
        self.tiles = tiles
        self.settings = settings
        self.parts = parts
        self.kernel = self._finishing()
        self.rows = RowWriter(self.kernel, Shape(max(2, tiles.m), 0, row_split=tiles.row_split), settings, needs)
        self.rows.part_columns = self._enter
        self.scope = self.rows.scope
        self.scope.results[SUMS] = "acc"
        self.scope.inner.add(f"@{SUMS}")
        self.scope.varying = {"element": ("rows", "cols"), "row": ("rows",)}
        self.scope.taken |= _LOCALS
        self.m, self.n, self.k, self.batch = (
            f"({self.scope.index(p)})" for p in (matmul.m, matmul.n, matmul.k, matmul.batch)
        )

    @property
    def summed(self) -> Poly:
        """Length of the sum, as the operands have it in memory."""
        return self.matmul.k

    @property
    def read(self) -> tuple[str, ...]:
        """Operands that are read from memory as they are."""
        return tuple(s for s in ("left", "right") if self.operands and s not in dict(self.matmul.before))

    @property
    def name(self) -> str:
        """Of the function."""
        return self.kernel.name

    def value(self, side: str) -> str:
        """What is read as an operand: a value of the graph, or a scratch buffer."""
        return self.matmul.left if side == "left" else self.matmul.right

    def layout(self, side: str, plan: Plan) -> Layout:
        """Where an operand lies."""
        return layout_of(self.value(side), plan)

    @property
    def scratch(self) -> tuple[tuple[str, str, str], ...]:
        """Parameter, buffer and dtype of what is handed on beside the results."""
        return ()

    def _finishing(self) -> Tile:
        matmul, user = self.matmul, self.matmul.user
        place = 1 if user is None else split_at(user, matmul) or 0
        dims = (matmul.batch * matmul.m, matmul.n) if user is None else user.dims
        columns = (user and user.reduced) or range(place, len(dims))
        return finishing(matmul.node, user, dims, columns, f"product_{matmul.node.name}", self.parts)

    def lines(self) -> list[str]:
        """The body."""
        return [
            "batch = tl.program_id(1).to(tl.int64)",
            *self.extent(),
            *self.place("tl.program_id(0)"),
            *self.start(),
            *self._sum(),
            *self.finish(),
        ]

    @property
    def _parts(self) -> list[tuple[str, int]]:
        """What the variables of a part of the tile's columns end in, and how many columns it has."""
        return [(str(p), width) for p, width in enumerate(self.tiles.row_split)] or [("", self.tiles.n)]

    def _enter(self, part: int) -> list[str]:
        self.scope.results[SUMS] = f"acc{part}"
        return [f"cols = rn{part}[None, :]", f"col_mask = (rn{part} < {self.n})[None, :]"]

    def extent(self) -> list[str]:
        """Tiles of one product."""
        return [f"down = tl.cdiv({self.m}, {self.tiles.m})", f"across = tl.cdiv({self.n}, {self.tiles.n})"]

    def place(self, number: str) -> list[str]:
        """Where tile ``number`` lies: those that share operands follow each other."""
        group = self.settings.group
        columns, before = [], 0
        for part, width in self._parts:
            columns.append(f"rn{part} = tile_n * {self.tiles.n} + {before} + tl.arange(0, {width})")
            before += width
        return [
            f"width = {group} * across",
            f"first = ({number} // width) * {group}",
            f"group = tl.minimum(down - first, {group})",
            f"tile_m = first + ({number} % width) % group",
            f"tile_n = ({number} % width) // group",
            f"rm = tile_m * {self.tiles.m} + tl.arange(0, {self.tiles.m})",
            *(line.replace(" + 0 +", " +") for line in columns),
        ]

    def start(self) -> list[str]:
        """Pointers to the first blocks of the operands, and an empty sum."""
        return [
            f"rk = tl.arange(0, {self.tiles.k})",
            *(self._pointers()),
            *(f"acc{p} = tl.zeros([{self.tiles.m}, {width}], tl.float32)" for p, width in self._parts),
        ]

    def _pointers(self) -> list[str]:
        lines = []
        if "left" in self.read:
            lines.append(
                f"left = ks_left_ptr + batch * left_b + (rm % {self.m})[:, None] * left_m + rk[None, :] * left_k"
            )
        if "right" in self.read:
            lines.append("base = ks_right_ptr + batch * right_b + rk[:, None] * right_k")
            lines += [f"right{p} = base + (rn{p} % {self.n})[None, :] * right_n" for p, _ in self._parts]
        return lines

    def _sum(self) -> list[str]:
        """All of the summed dimension, or one part of it."""
        steps = f"tl.cdiv({self.k}, {self.tiles.k})"
        if self.parts is None:
            return self.steps("0", steps)
        part = f"tl.program_id(2).to(tl.int64) * {self.batch} * {self.m} * {self.n}"
        return [
            f"steps = {steps}",
            "share = tl.cdiv(steps, tl.num_programs(2))",
            "low = tl.program_id(2) * share",
            *self.skip(),
            f"{pname(self.parts.name)}_out += {part}",
            *self.steps("low", "tl.minimum(steps, low + share)"),
        ]

    def skip(self) -> list[str]:
        """The pointers ``low`` blocks on."""
        lines = [f"left += low * {self.tiles.k} * left_k"] if "left" in self.read else []
        rights = [f"right{p} += low * {self.tiles.k} * right_k" for p, _ in self._parts]
        return [*lines, *rights] if "right" in self.read else lines

    def steps(self, low: str, high: str) -> list[str]:
        """The sum over blocks ``low`` to ``high`` of the summed dimension."""
        tile = self.tiles.k
        body = [f"inside = rk < {self.k} - step * {tile}", *self._left(), *self._right()]
        for p, _ in self._parts:
            body += self.dot(p)
        body += [f"left += {tile} * left_k"] if "left" in self.read else []
        body += [f"right{p} += {tile} * right_k" for p, _ in self._parts] if "right" in self.read else []
        return [f"for step in range({low}, {high}):", *indent(body)]

    def dot(self, part: str) -> list[str]:
        """Adds one block to the sum of a part of the columns."""
        full = self.matmul.node.values[0].dtype == "float32"
        precision = f', input_precision="{self.settings.precision}"' if full else ""
        return [f"acc{part} = tl.dot(x, y{part}, acc{part}{precision})"]

    def load(self, name: str, pointer: str, mask: str) -> list[str]:
        """Reads a block of an operand."""
        return [f"{name} = tl.load({pointer}) if EVEN_K else tl.load({pointer}, mask={mask}, other=0.0)"]

    def _left(self) -> list[str]:
        if "left" in self.read:
            return self.load("x", "left", "inside[None, :]")
        return self._prologue_writer("left").lines(
            "x",
            rows=f"(batch * {self.m} + rm)[:, None]",
            cols=f"(step * {self.tiles.k} + rk)[None, :]",
            row_mask=f"(rm < {self.m})[:, None]",
            col_mask=f"tl.full([1, {self.tiles.k}], True, tl.int1) if EVEN_K else inside[None, :]",
        )

    def _right(self) -> list[str]:
        lines: list[str] = []
        for p, _ in self._parts:
            if "right" in self.read:
                lines += self.load(f"y{p}", f"right{p}", "inside[:, None]")
                continue
            lines += self._prologue_writer("right").lines(
                f"y{p}",
                rows=f"(batch * {self.k} + step * {self.tiles.k} + rk)[:, None]",
                cols=f"rn{p}[None, :]",
                row_mask=f"tl.full([{self.tiles.k}, 1], True, tl.int1) if EVEN_K else inside[:, None]",
                col_mask=f"(rn{p} < {self.n})[None, :]",
            )
        return lines

    def _prologue_writer(self, side: str) -> PrologueWriter:
        """A writer of what makes an operand; no two use the same names."""
        writer = PrologueWriter(dict(self.matmul.before)[side], self.scope.needs, self.scope.taken)
        self.scope.taken = writer.scope.taken
        return writer

    def finish(self) -> list[str]:
        """What follows the sum."""
        return [
            f"rows = (batch * {self.m} + rm)[:, None]",
            f"row_mask = (rm < {self.m})[:, None]",
            *([] if self.tiles.row_split else ["cols = rn[None, :]", f"col_mask = (rn < {self.n})[None, :]"]),
            *self.rows.passes(),
            *self.rows.drained(OUTSIDE),
        ]

    def grid(self) -> tuple[str, ...]:
        """Programs of one product, products, and parts of the sum."""
        m, n = python_poly(self.matmul.m), python_poly(self.matmul.n)
        programs = f"_cdiv({m}, {self.tiles.m}) * _cdiv({n}, {self.tiles.n})"
        parts = () if self.parts is None else (python_poly(self.parts.shape[0]),)
        return programs, python_poly(self.matmul.batch), *parts
