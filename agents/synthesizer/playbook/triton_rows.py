"""Rows, columns and pointwise kernels in Triton: a tile of rows, whole or in blocks, for every program."""

from dataclasses import dataclass

from .loops import Accumulation, Store
from .online import OnlinePair, online_pairs
from .poly import product
from .triton_knobs import GpuSettings
from .triton_prepare import Sizes, Tile, is_columns, unique
from .triton_reduce import combine, fold, held, is_position, neutral
from .triton_scope import INSIDE, OUTSIDE, Axis, TritonScope
from .triton_text import TYPES, TritonNeeds

WHOLE_LIMIT = 1 << 16
"""Longest row that a program may be asked to hold; longer ones go to PyTorch where the code is made for whole rows."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is cut into programs. ``rows`` and ``block`` are powers of two."""

    rows: int
    """Rows of a program."""
    block: int
    """Elements of a row at once; 0: the whole row."""
    columns: bool = False
    """Rows lie along memory, elements of a row do not."""
    persistent: int = 0
    """Programs in all, each taking many tiles; 0: one program for each tile."""

    @property
    def flat(self) -> bool:
        """Whether a program has one row, and its tiles one dimension."""
        return self.rows == 1 and not self.columns


def shape_of_tile(kernel: Tile, sizes: Sizes, settings: GpuSettings) -> Shape:
    """The cut that the settings ask for, at the main shape."""
    length = _length(kernel, sizes)
    count = sizes.of(product(kernel.dims[d] for d in kernel.outer))
    persistent = settings.persistent * 132
    columns = is_columns(kernel)
    if columns:
        rows = settings.rows or min(128, power(count))
        block = 0 if length <= 32 else max(1, 4096 // rows)
        return Shape(max(rows, 2), block, True, persistent)
    whole = _is_whole(kernel, length, settings)
    width = power(length) if whole else (settings.block or 4096)
    rows = settings.rows or _rows(width, count)
    return Shape(rows if kernel.outer else 1, 0 if whole else max(16, width), False, persistent)


def _length(kernel: Tile, sizes: Sizes) -> int:
    """Elements of a row; one that depends on the data may be of any length."""
    length = product(kernel.dims[d] for d in kernel.inner)
    return sizes.of(length) if sizes.known(length) else 1 << 30


def _is_whole(kernel: Tile, length: int, settings: GpuSettings) -> bool:
    if settings.row != "auto":
        return settings.row == "whole" and length <= WHOLE_LIMIT
    rereads = any(s.level == "element" for s in kernel.stores.values())
    return length <= (32768 if rereads else 8192)


def _rows(width: int, count: int) -> int:
    rows = max(1, 2048 // width)
    while rows > 1 and count // rows < 1024:
        rows //= 2
    return rows


def power(n: int) -> int:
    """The next power of two."""
    return 1 << max(0, (n - 1).bit_length())


class RowWriter:
    """Writes the body of one kernel with rows."""

    def __init__(self, kernel: Tile, shape: Shape, settings: GpuSettings, needs: TritonNeeds) -> None:
        self.kernel = kernel
        self.shape = shape
        self.settings = settings
        self.needs = needs
        outer = tuple(f"i{d}" for d in kernel.outer)
        inner = tuple(f"i{d}" for d in kernel.inner)
        row_mask = "" if shape.flat else "row_mask"
        axes = [
            Axis("rows", outer, tuple(kernel.dims[d] for d in kernel.outer), row_mask),
            Axis("cols", inner, tuple(kernel.dims[d] for d in kernel.inner), "col_mask"),
        ]
        self.scope = TritonScope(needs, axes, {*inner, "cols"}, self._streams())
        self.scope.one_level = not shape.block
        self.accumulations = list(unique(kernel).values())
        pairs = online_pairs(kernel) if settings.online and shape.block and shape.flat else []
        self.pairs: list[OnlinePair] = pairs
        self.mask = "col_mask"
        if kernel.below is not None:
            self.scope.extra_mask = self.mask = "inside"

    def _streams(self) -> set[str]:
        if not self.settings.evict:
            return set()
        passes: dict[str, set[int]] = {}
        every = {f"i{d}" for d, size in enumerate(self.kernel.dims)}
        whole = set()
        for root in self.kernel.roots():
            for node in root.walk():
                if node.op == "load":
                    passes.setdefault(node.data[0], set()).add(self.kernel.pass_of(root))
                    if every <= node.polys[0].names:
                        whole.add(node.data[0])
        once = {n for n, p in passes.items() if len(p) == 1 or not self.shape.block}
        return whole & once

    def lines(self) -> list[str]:
        """The body."""
        body = [*self._rows(), *self._columns(), *self._passes()]
        if not self.kernel.outer:
            return body
        if not self.shape.persistent:
            return ["tile = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)", *body]
        return [
            f"tiles = ({self.count} + {self.shape.rows - 1}) // {self.shape.rows}",
            "for number in range(tl.program_id(0), tiles, tl.num_programs(0)):",
            "    tile = number.to(tl.int64) if WIDE else number",
            *indent(body),
        ]

    @property
    def count(self) -> str:
        """Rows in all."""
        return f"({self.scope.index(product(self.kernel.dims[d] for d in self.kernel.outer))})"

    @property
    def length(self) -> str:
        """Elements of a row."""
        return f"({self.scope.index(product(self.kernel.dims[d] for d in self.kernel.inner))})"

    def _rows(self) -> list[str]:
        if self.shape.flat:
            return ["rows = tile" if self.kernel.outer else "rows = 0"]
        place = "[None, :]" if self.shape.columns else "[:, None]"
        return [
            f"rows = tile * {self.shape.rows} + tl.arange(0, {self.shape.rows}){place}",
            f"row_mask = rows < {self.count}",
        ]

    def _columns(self, start: str = "") -> list[str]:
        if self.shape.block and not start:
            return []
        width = str(self.shape.block) if self.shape.block else "BLOCK"
        place = "" if self.shape.flat else "[:, None]" if self.shape.columns else "[None, :]"
        full = f"[{width}]" if self.shape.flat else f"[{width}, 1]" if self.shape.columns else f"[1, {width}]"
        lines = [
            f"cols = {start}tl.arange(0, {width}){place}",
            f"col_mask = tl.full({full}, True, tl.int1) if EVEN else cols < {self.length}",
        ]
        if self.kernel.below is not None:
            position, limit = (self.scope.index(p) for p in self.kernel.below)
            lines.append(f"inside = col_mask & (({position}) < ({limit}))")
        return lines

    # Passes

    def _passes(self) -> list[str]:
        paired = {a.name for pair in self.pairs for a in (pair.maximum, pair.total)}
        stores = list(self.kernel.stores.values())
        elements = [s for s in stores if s.level == "element"]
        roots = [a.body for a in self.accumulations] + [s.value for s in elements]
        lines: list[str] = []
        self.scope.count(roots + [s.value for s in stores if s.level != "element"])
        for number in range(max((self.kernel.pass_of(r) for r in roots), default=-1) + 1):
            here = [a for a in self.accumulations if self.kernel.pass_of(a.body) == number and a.name not in paired]
            pairs = [p for p in self.pairs if self.kernel.pass_of(p.maximum.body) == number]
            written = [s for s in elements if self.kernel.pass_of(s.value) == number]
            if here or pairs or written:
                lines += self._pass(here, pairs, written)
        return [*lines, *self._row_stores([s for s in stores if s.level != "element"])]

    def _pass(self, accumulations: list[Accumulation], pairs: list[OnlinePair], stores: list[Store]) -> list[str]:
        if not self.shape.block:
            return self._whole(accumulations, stores)
        head: list[str] = []
        body: list[str] = []
        tail: list[str] = []
        self.scope.enter()
        for pair in pairs:
            for part, more in zip((head, body, tail), self._online(pair), strict=True):
                part += more
        for a in accumulations:
            for part, more in zip((head, body, tail), self._looped(a), strict=True):
                part += more
        for store in stores:
            text = self._store(store)
            body += [*self._drain(INSIDE), text]
        before = self._drain(OUTSIDE)
        stages = f", num_stages={self.settings.stages}" if self.settings.stages else ""
        loop = f"for start in tl.range(0, {self.length}, {self.shape.block}{stages}):"
        return [*before, *head, loop, *indent([*self._columns("start + "), *body]), *tail]

    def _drain(self, level: int) -> list[str]:
        found, self.scope.lines[level] = self.scope.lines[level], []
        return found

    def _whole(self, accumulations: list[Accumulation], stores: list[Store]) -> list[str]:
        lines: list[str] = []
        for a in accumulations:
            value = self._masked(a)
            lines += [*self._drain(OUTSIDE), *self._folded(a, value, "cols")]
        for store in stores:
            text = self._store(store)
            lines += [*self._drain(OUTSIDE), text]
        return lines

    def _masked(self, a: Accumulation) -> str:
        """What is accumulated, neutral where there is no element."""
        text = self.scope.text(a.body)
        if held(a) != a.body.dtype or a.body.op in ("index", "const"):
            text = f"tl.cast({text}, {TYPES[held(a)]})"
        return f"tl.where({self.mask}, {text}, {neutral(a)})"

    def _folded(self, a: Accumulation, tile: str, positions: str) -> list[str]:
        name, axis = self._name(a), 0 if self.shape.flat or self.shape.columns else 1
        if is_position(a):
            place = self.scope.fresh(f"{name}_in")
            at = f"tl.broadcast_to(tl.cast({positions}, tl.int64), {place}.shape)"
            pair = f"({place}, {at})"
            result = fold(a, pair, axis, not self.shape.flat, self.needs)
            return [f"{place} = {tile}", f"{self.scope.fresh(f'{name}_value')}, {name} = {result}"]
        text = fold(a, tile, axis, not self.shape.flat, self.needs)
        return [f"{name} = {text} != 0" if a.dtype == "bool" else f"{name} = {text}"]

    def _name(self, a: Accumulation) -> str:
        if a.name not in self.scope.results:
            self.scope.results[a.name] = self.scope.fresh(a.name)
        return self.scope.results[a.name]

    @property
    def _full_shape(self) -> str:
        if self.shape.flat:
            return f"[{self.shape.block}]"
        return (
            f"[{self.shape.block}, {self.shape.rows}]"
            if self.shape.columns
            else f"[{self.shape.rows}, {self.shape.block}]"
        )

    def _looped(self, a: Accumulation) -> tuple[list[str], list[str], list[str]]:
        """Statements before, in and after the loop: tiles are accumulated element by element, and folded once."""
        value = self._masked(a)
        acc = self.scope.fresh(f"{a.name}_acc")
        t = TYPES[held(a)]
        head = [f"{acc} = tl.full({self._full_shape}, {neutral(a)}, {t})"]
        if is_position(a):
            at = self.scope.fresh(f"{a.name}_at")
            combined = self.needs.helper(f"ks_{a.op}")
            where = f"tl.broadcast_to(tl.cast(cols, tl.int64), {acc}.shape)"
            head.append(f"{at} = tl.full({self._full_shape}, 9223372036854775807, tl.int64)")
            body = [*self._drain(INSIDE), f"{acc}, {at} = {combined}({acc}, {at}, {value}, {where})"]
            return head, body, self._folded(a, acc, at)
        body = [*self._drain(INSIDE), f"{acc} = {combine(a, acc, value, self.needs)}"]
        return head, body, self._folded(a, acc, "")

    def _online(self, pair: OnlinePair) -> tuple[list[str], list[str], list[str]]:
        """Maximum and sum of exponentials in one pass (Milakov and Gimelshein 2018): a larger maximum rescales."""
        top, total = self._name(pair.maximum), self._name(pair.total)
        new, shift = self.scope.fresh(f"{top}_new"), self.scope.fresh(f"{top}_shift")
        exp = self.needs.function("exp", pair.total.dtype)
        value = self._masked(pair.maximum)
        body = [*self._drain(INSIDE)]
        highest = fold(pair.maximum, value, 0, False, self.needs)
        body.append(f"{new} = {self.needs.helper('ks_max')}({top}, {highest})")
        body.append(f'{shift} = tl.where({new} == float("-inf"), 0.0, {new})')
        self.scope.results[pair.maximum.name] = shift
        added = self._masked(pair.total)
        body += [
            *self._drain(INSIDE),
            f"{total} = {total} * {exp}({top} - {shift}) + tl.sum({added}, 0)",
            f"{top} = {new}",
        ]
        self.scope.results[pair.maximum.name] = top
        t = TYPES[pair.maximum.dtype]
        head = [f"{top} = {neutral(pair.maximum)}", f"{total} = tl.full((), 0, {t})"]
        # A row of nothing but -inf has no softmax: NaN, as the definition gives.
        return head, body, [f'{total} = tl.where({top} == float("-inf"), float("nan"), {total})']

    def _store(self, store: Store) -> str:
        return self.scope.store(store, ".cs" if self.settings.stream else "")

    def _row_stores(self, stores: list[Store]) -> list[str]:
        lines: list[str] = []
        for store in stores:
            text = self.scope.store(store)
            lines += [*self._drain(OUTSIDE), text]
        return lines


def indent(lines: list[str]) -> list[str]:
    """Lines four spaces further in."""
    return [f"    {line}" if line else line for line in lines]
