"""Rows, columns and pointwise kernels in Triton: a tile of rows, whole or in blocks, for every program."""

from collections.abc import Callable
from functools import cached_property

from ..ir.loops import Accumulation, Store, buffers_read
from ..ir.poly import ONE, Poly, product
from ..ir.scalar import Scalar, walk_all
from .pairs import Pair, Parts, pairs_of
from .power_of_two_split import split_pass
from .prepare import Tile, memory_passes, unique
from .reduce import combine, fold, held, is_position, neutral
from .row_shape import Shape
from .scope import INSIDE, OUTSIDE, AvailableValues, Axis, TritonScope
from .text import TYPES, TritonNeeds
from .tunables import GpuSettings


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
        self.scope = TritonScope(needs, axes, {*inner, "cols"})
        self.scope.one_level = not shape.block and not shape.row_split
        self.available: list[AvailableValues] = [{} for _ in shape.row_split]
        self.part_columns: Callable[[int], list[str]] = self._part_columns
        """Positions and mask of a part; a product has them already."""
        self.accumulations = list(unique(kernel).values())
        self.pairs: list[Pair] = pairs_of(kernel, shape.block, shape.flat, settings)
        self.reads = self._reads()
        self.mask = "col_mask"
        if kernel.below is not None:
            self.scope.extra_mask = self.mask = "inside"

    @property
    def width(self) -> int:
        """Bytes of the widest element that every row has of its own; 2 or 4."""
        own = {name for name, (own, _) in self.reads.items() if own}
        sizes = [dtype for name, dtype in buffers_read(self.kernel.roots()).items() if name in own]
        return 2 if sizes and all(dtype in ("bfloat16", "float16") for dtype in sizes) else 4

    def _pass_of(self, a: Accumulation) -> int:
        """The pass in which a reduction is made: of a pair's second one, that of the first."""
        first = next((pair.first for pair in self.pairs if pair.second.name == a.name), a)
        return self.kernel.pass_of(first.body)

    def _reads(self) -> dict[str, tuple[bool, int]]:
        """Buffers read along a row: whether every row has elements of its own, and the last pass that reads them."""
        outer, inner = ({f"i{d}" for d in dims} for dims in (self.kernel.outer, self.kernel.inner))
        roots = [(a.body, self._pass_of(a)) for a in self.accumulations]
        roots += [(s.value, self.kernel.pass_of(s.value)) for s in self.kernel.stores.values()]
        reads: dict[str, tuple[bool, int]] = {}
        by_pass: dict[int, list[Scalar]] = {}
        for root, number in roots:
            by_pass.setdefault(number, []).append(root)
        for number, together in by_pass.items():
            for node in walk_all(together):
                if node.op == "load" and inner <= node.polys[0].names:
                    own, last = reads.get(node.data[0], (False, 0))
                    reads[node.data[0]] = (own or outer <= node.polys[0].names, max(last, number))
        return reads

    def _policies(self, number: int) -> dict[str, str]:
        """What the caches are told in a pass: what is read again stays, what is read for the last time may go."""
        # Neighbouring columns share the sectors at their borders: letting them go early cost 8 % on an H200.
        once = self.shape.columns and bool(self.shape.block) and memory_passes(self.kernel) == 1
        if once or not self.settings.evict:
            return {}
        last = {n: own and (not self.shape.block or number >= at) for n, (own, at) in self.reads.items()}
        shared = self._shared_sectors()
        return {name: "evict_first" if goes else "evict_last" for name, goes in last.items() if name not in shared}

    def _shared_sectors(self) -> set[str]:
        """Buffers of whose sectors other loads, or other programs, read a part."""
        offsets: dict[str, set[Poly]] = {}
        for node in walk_all(self.kernel.roots()):
            if node.op == "load":
                offsets.setdefault(node.data[0], set()).add(node.polys[0])
        along = f"i{self.kernel.inner[-1]}" if self.kernel.inner else ""
        return {
            name
            for name, polys in offsets.items()
            if len(polys) > 1 or any(along in p.names and p.coefficient(along) != ONE for p in polys)
        }

    def lines(self) -> list[str]:
        """The body."""
        body = [*self._rows(), *self._columns(), *self.passes()]
        if not self.kernel.outer:
            return body
        if not self.shape.persistent:
            return ["tile = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)", *body]
        return [
            f"tiles = ({self.count} + {self.shape.rows - 1}) // {self.shape.rows}",
            f"for number in {self._ahead()}:",
            "    tile = number.to(tl.int64) if WIDE else number",
            *indent(body),
        ]

    def _ahead(self) -> str:
        """Tiles of a persistent program; ``stages`` has the next ones fetched while one is worked on."""
        bounds = "tl.program_id(0), tiles, tl.num_programs(0)"
        stages = 0 if self.shape.block else self.settings.stages
        return f"tl.range({bounds}, num_stages={stages})" if stages else f"range({bounds})"

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
        if self.shape.row_split or (self.shape.block and not start):
            return []
        width = str(self.shape.block) if self.shape.block else "BLOCK"
        place = "" if self.shape.flat else "[:, None]" if self.shape.columns else "[None, :]"
        full = f"[{width}]" if self.shape.flat else f"[{width}, 1]" if self.shape.columns else f"[1, {width}]"
        cols = f"{start}tl.arange(0, {width}){place}"
        lines = [
            f"cols = {self._widened(cols)}",
            f"col_mask = tl.full({full}, True, tl.int1) if EVEN else cols < {self.length}",
        ]
        if self.kernel.below is not None:
            position, limit = (self.scope.index(p) for p in self.kernel.below)
            lines.append(f"inside = col_mask & (({position}) < ({limit}))")
        return lines

    def _widened(self, cols: str) -> str:
        """Positions in 64 bits where what they lead to lies apart in memory: products with sizes may need these."""
        return f"({cols}).to(tl.int64) if WIDE else {cols}" if self._is_strided else cols

    @cached_property
    def _is_strided(self) -> bool:
        """Whether anything that a row reads or writes does not lie one behind the other."""
        cols = self.scope.axes[1]
        polys = [store.offset for store in self.kernel.stores.values()]
        polys += [p for node in walk_all(self.kernel.roots()) for p in node.polys]
        inside = (cols.linear(p) for p in polys if p.names & set(cols.variables))
        name = cols.variables[0] if len(cols.variables) == 1 else cols.name
        return any(p.coefficient(name) != ONE for p in inside)

    @property
    def row_split(self) -> tuple[int, ...]:
        """Lengths of the parts of a row."""
        return self.shape.row_split

    @property
    def axis(self) -> tuple[int, bool]:
        """The axis of a tile that a row lies along, and whether it stays when it is folded."""
        return 0 if self.shape.flat or self.shape.columns else 1, not self.shape.flat

    def enter(self, part: int) -> list[str]:
        """Statements that lead to a part of the row; from now on values are printed for it."""
        self.scope.available[INSIDE] = self.available[part]
        return self.part_columns(part)

    def _part_columns(self, part: int) -> list[str]:
        width, before = self.row_split[part], sum(self.row_split[:part])
        place, full = ("", f"[{width}]") if self.shape.flat else ("[None, :]", f"[1, {width}]")
        return [
            f"cols = {self._widened(f'{before} + tl.arange(0, {width}){place}')}",
            f"col_mask = tl.full({full}, True, tl.int1) if EVEN else cols < {self.length}",
        ]

    # Passes

    def passes(self) -> list[str]:
        """All passes over the rows, and what is written once a row."""
        paired = {a.name for pair in self.pairs for a in (pair.first, pair.second)}
        stores = list(self.kernel.stores.values())
        elements = [s for s in stores if s.level == "element"]
        roots = [a.body for a in self.accumulations] + [s.value for s in elements]
        lines: list[str] = []
        self.scope.count(roots + [s.value for s in stores if s.level != "element"])
        for number in range(max((self.kernel.pass_of(r) for r in roots), default=-1) + 1):
            here = [a for a in self.accumulations if self.kernel.pass_of(a.body) == number and a.name not in paired]
            pairs = [p for p in self.pairs if self.kernel.pass_of(p.first.body) == number]
            written = [s for s in elements if self.kernel.pass_of(s.value) == number]
            if here or pairs or written:
                self.scope.policies = self._policies(number)
                lines += self._pass(here, pairs, written)
        return [*lines, *self._row_stores([s for s in stores if s.level != "element"])]

    def _pass(self, accumulations: list[Accumulation], pairs: list[Pair], stores: list[Store]) -> list[str]:
        if self.shape.row_split:
            return split_pass(self, accumulations, stores)
        if not self.shape.block:
            return self._whole(accumulations, stores)
        head: list[str] = []
        body: list[str] = []
        tail: list[str] = []
        self.scope.enter()
        for pair in pairs:
            for part, more in zip((head, body, tail), pair.lines(self), strict=True):
                part += more
        for a in accumulations:
            for part, more in zip((head, body, tail), self._looped(a), strict=True):
                part += more
        for store in stores:
            text = self.written(store)
            body += [*self.drained(INSIDE), text]
        before = self.drained(OUTSIDE)
        stages = f", num_stages={self.settings.stages}" if self.settings.stages else ""
        loop = f"for start in tl.range(0, {self.length}, {self.shape.block}{stages}):"
        return [*before, *head, loop, *indent([*self._columns("start + "), *body]), *tail]

    def drained(self, level: int) -> list[str]:
        """Statements of a level that printed values need; they are taken off."""
        lines, self.scope.lines[level] = self.scope.lines[level], []
        return lines

    def _whole(self, accumulations: list[Accumulation], stores: list[Store]) -> list[str]:
        lines: list[str] = []
        for a in accumulations:
            value = self.masked(a)
            lines += [*self.drained(OUTSIDE), *self._folded(a, value, "cols")]
        for store in stores:
            text = self.written(store)
            lines += [*self.drained(OUTSIDE), text]
        return lines

    def masked(self, a: Accumulation) -> str:
        """What is accumulated, neutral where there is no element."""
        text = self.scope.text(a.body)
        if held(a) != a.body.dtype or a.body.op in ("index", "const"):
            text = f"tl.cast({text}, {TYPES[held(a)]})"
        return f"tl.where({self.mask}, {text}, {neutral(a)})"

    def _folded(self, a: Accumulation, tile: str, positions: str) -> list[str]:
        name, (axis, keeps) = self.name_of(a), self.axis
        if is_position(a):
            place = self.scope.fresh(f"{name}_in")
            at = f"tl.broadcast_to(tl.cast({positions}, tl.int64), {place}.shape)"
            pair = f"({place}, {at})"
            result = fold(a, pair, axis, keeps, self.needs)
            return [f"{place} = {tile}", f"{self.scope.fresh(f'{name}_value')}, {name} = {result}"]
        text = fold(a, tile, axis, keeps, self.needs)
        return [f"{name} = {text} != 0" if a.dtype == "bool" else f"{name} = {text}"]

    def name_of(self, a: Accumulation) -> str:
        """The variable that holds a reduction's result."""
        if a.name not in self.scope.results:
            self.scope.results[a.name] = self.scope.fresh(a.name)
        return self.scope.results[a.name]

    def lanes(self) -> tuple[str, str, str, int, int, bool]:
        """See :class:`~.triton_pairs.Writer`."""
        place = "" if self.shape.flat else "[:, None]" if self.shape.columns else "[None, :]"
        positions = f"tl.arange(0, {self.shape.block}){place}"
        return self._full_shape, positions, self.length, self.shape.block, *self.axis

    @property
    def _full_shape(self) -> str:
        if self.shape.flat:
            return f"[{self.shape.block}]"
        return (
            f"[{self.shape.block}, {self.shape.rows}]"
            if self.shape.columns
            else f"[{self.shape.rows}, {self.shape.block}]"
        )

    def _looped(self, a: Accumulation) -> Parts:
        """Statements before, in and after the loop: tiles are accumulated element by element, and folded once."""
        value = self.masked(a)
        acc = self.scope.fresh(f"{a.name}_acc")
        t = TYPES[held(a)]
        head = [f"{acc} = tl.full({self._full_shape}, {neutral(a)}, {t})"]
        # Where a row ends before its block does, a place may begin with what does not count: positions are compared.
        if is_position(a) and self.kernel.below is None:
            return self._looped_position(a, value, acc, head)
        if is_position(a):
            at = self.scope.fresh(f"{a.name}_at")
            combined = self.needs.helper(f"ks_{a.op}")
            positions = f"tl.broadcast_to(tl.cast(cols, tl.int64), {acc}.shape)"
            head.append(f"{at} = tl.full({self._full_shape}, 9223372036854775807, tl.int64)")
            body = [*self.drained(INSIDE), f"{acc}, {at} = {combined}({acc}, {at}, {value}, {positions})"]
            return head, body, self._folded(a, acc, at)
        body = [*self.drained(INSIDE), f"{acc} = {combine(a, acc, value, self.needs)}"]
        return head, body, self._folded(a, acc, "")

    def _looped_position(self, a: Accumulation, value: str, acc: str, head: list[str]) -> Parts:
        """Each place of a tile keeps the block that its extreme was found in: blocks come in order, so only what is
        really beyond it, or the first that is no number, takes its place.
        """
        at, new, beyond = (self.scope.fresh(f"{a.name}_{suffix}") for suffix in ("at", "new", "beyond"))
        body = [
            *self.drained(INSIDE),
            f"{new} = {value}",
            f"{beyond} = (({new} {'>' if a.op == 'argmax' else '<'} {acc}) | ({new} != {new})) & ({acc} == {acc})",
            f"{acc} = tl.where({beyond}, {new}, {acc})",
            f"{at} = tl.where({beyond}, start, {at})",
        ]
        head.append(f"{at} = tl.full({self._full_shape}, 0, tl.int64 if WIDE else tl.int32)")
        return head, body, self._folded(a, acc, f"{at} + {self.lanes()[1]}")

    def written(self, store: Store) -> str:
        """A statement that writes a value."""
        return self.scope.store(store, ".cs" if self.settings.stream else "")

    def _row_stores(self, stores: list[Store]) -> list[str]:
        lines: list[str] = []
        for store in stores:
            text = self.scope.store(store)
            lines += [*self.drained(OUTSIDE), text]
        return lines


def indent(lines: list[str]) -> list[str]:
    """Lines four spaces further in."""
    return [f"    {line}" if line else line for line in lines]
