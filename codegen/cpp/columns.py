"""C++ for reductions over dimensions before the last: several columns at once, so that vectors run along memory."""

from ..ir.loops import Accumulation, Kernel
from ..ir.poly import product
from ..ir.scalar import Scalar, rewrite
from ..ir.tunables import Settings
from .choices import guarded
from .parallel import nest, shares, simd, team, tiled
from .passes import after_all_rows, combine_text, start_value, store_line
from .passes_types import Item, indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import Needs, ctype, index_text


def column_lines(kernel: Kernel, settings: Settings, needs: Needs) -> list[str]:
    """Statements of the C++ function for a kernel whose last dimension is kept."""
    return _Columns(kernel, settings, needs).lines()


class _Columns:
    def __init__(self, kernel: Kernel, settings: Settings, needs: Needs) -> None:
        self.kernel = kernel
        self.settings = settings
        self.needs = needs
        self.column = f"i{len(kernel.dims) - 1}"
        self.inner = [f"i{d}" for d in kernel.inner]
        self.outer = [f"i{d}" for d in kernel.outer[:-1]]
        unique = {a.name: a for a in kernel.accumulations.values()}
        self.rows = [a for a in unique.values() if a.level == "row"]
        self.full = [a for a in unique.values() if a.level == "full"]
        self.scope = Scope(needs, {*self.inner, self.column}, set(self.outer), settings.search)
        self.scope.taken |= {cname(name) for name in kernel.accumulations}
        self.scope.taken |= {cname(s.buffer.name) for s in kernel.stores.values()}
        self.scope.reserve(kernel.roots())
        for name, accumulation in unique.items():
            place = f"{cname(name)}_acc[j]"
            self.scope.results[name] = f"((float){place})" if _is_wide(accumulation) else place
        self.hoisted: list[Scalar] = []
        self.stepped: list[Scalar] = []

    def lines(self) -> list[str]:
        """The whole function body."""
        body = self._tile()
        loops = self._parallel(body)
        tail = self._full_tail() if any(s.level == "full" for s in self.kernel.stores.values()) else []
        return ["int64_t bad = 0;", *self.scope.lines[FUNCTION], *loops, *tail, "return bad;"]

    def _tile(self) -> list[str]:
        stores = [s for s in self.kernel.stores.values() if s.level == "element"]
        roots = [a.body for a in self.rows] + [s.value for s in stores]
        lines: list[str] = []
        for number in range(max((self.kernel.pass_of(r) for r in roots), default=-1) + 1):
            lines += self._pass(number)
        return lines + self._row_stores()

    def _pass(self, number: int) -> list[str]:
        accumulations = [a for a in self.rows if self.kernel.pass_of(a.body) == number]
        stores = [
            s for s in self.kernel.stores.values() if s.level == "element" and self.kernel.pass_of(s.value) == number
        ]
        items = [Item(a.body, accumulation=a) for a in accumulations] + [Item(s.value, store=s) for s in stores]
        items, hoisted = self._hoist(items)
        items, steps = self._steps(items)
        head = [line for a in accumulations for line in self._declare(a)]
        lines = [*steps, *self._columns(self._body(items))]
        for name, dim in reversed(list(zip(self.inner, self.kernel.inner, strict=True))):
            head_line = f"for (int64_t {name} = 0; {name} < {self._size(dim)}; ++{name}) {{"
            lines = [head_line, *indent(lines), "}"]
        before, self.scope.lines[ROW] = self.scope.lines[ROW], []
        return [*before, *hoisted, *head, *lines]

    def _hoist(self, items: list[Item]) -> tuple[list[Item], list[str]]:
        """Costly values of a column that do not depend on the reduced dimensions: computed once for each column."""
        inner = set(self.inner)

        def wanted(node: Scalar) -> bool:
            depends = any(name.startswith("@") for name in node.names)
            return depends and not node.names & inner and node.cost >= 4 and node.op != "result"

        lines: list[str] = []
        names: dict[str, Scalar] = {}
        for key, node in guarded(items, wanted, lambda names: bool(names & inner)).items():
            name = f"column{len(self.hoisted)}"
            self.hoisted.append(node)
            text = self._body([Item(node, keep=name)])
            tile, t = self.settings.tile, ctype(node.dtype)
            lines += [f"{t} {name}_acc[{tile}];", *self._columns(text)]
            names[key] = Scalar("result", node.dtype, data=name)
            self.scope.results[name] = f"{name}_acc[j]"

        def change(node: Scalar) -> Scalar | None:
            return names.get(node.key)

        return [Item(rewrite(i.value, change), i.accumulation, i.store) for i in items], lines

    def _steps(self, items: list[Item]) -> tuple[list[Item], list[str]]:
        """Values that are the same for all columns: computed once for each point of the reduced dimensions.

        The compiler does not move the check of an index out of the loop, and vectorises none with it in.
        """
        inner = set(self.inner)

        def varies(names: frozenset[str]) -> bool:
            return self.column in names or any(name.startswith("@") for name in names)

        def wanted(node: Scalar) -> bool:
            is_step = bool(node.names & inner) and not varies(node.names)
            return is_step and node.op in ("load", "wrap", "search", "segment")

        nodes = guarded(items, wanted, varies)
        if not nodes:
            return items, []
        self.scope.enter_elements()
        self.scope.count(list(nodes.values()))
        names: dict[str, Scalar] = {}
        lines = self.scope.lines[ELEMENT]
        for key, node in nodes.items():
            name = f"step{len(self.stepped)}"
            self.stepped.append(node)
            lines.append(f"const {ctype(node.dtype)} {name} = {self.scope.text(node)};")
            names[key] = Scalar("result", node.dtype, data=name)
            self.scope.results[name] = name
        return [Item(rewrite(i.value, lambda node: names.get(node.key)), i.accumulation, i.store) for i in items], lines

    def _body(self, items: list[Item]) -> list[str]:
        self.scope.enter_elements()
        # Values of a column live at the level of elements here: a row is a tile of columns.
        self.scope.inner |= {f"@{name}" for name in self.scope.results}
        self.scope.count([item.value for item in items])
        lines = self.scope.lines[ELEMENT]
        for item in items:
            text = self.scope.text(item.value)
            if item.keep:
                lines.append(f"{item.keep}_acc[j] = {text};")
            elif item.accumulation is not None:
                lines += self._accumulate(item.accumulation, text)
            elif item.store is not None:
                lines.append(store_line(item.store, text, self.scope))
        return lines

    def _accumulate(self, a: Accumulation, text: str) -> list[str]:
        name, place = cname(a.name), f"{cname(a.name)}_acc[j]"
        if a.op not in ("argmax", "argmin"):
            return [f"{place} = {combine_text(a, text, place, self.needs)};"]
        sign = ">" if a.op == "argmax" else "<"
        position = self.inner[-1]
        return [
            f"const {ctype(a.dtype)} {name}_new = {text};",
            f"const bool {name}_better = ({name}_new {sign} {name}_best[j]) "
            f"| (({name}_new != {name}_new) & ({name}_best[j] == {name}_best[j]));",
            f"{name}_best[j] = {name}_better ? {name}_new : {name}_best[j];",
            f"{place} = {name}_better ? {position} : {place};",
        ]

    def _declare(self, a: Accumulation) -> list[str]:
        tile, name = self.settings.tile, cname(a.name)
        if a.op in ("argmax", "argmin"):
            return [
                f"int64_t {name}_acc[{tile}] = {{0}};",
                f"{ctype(a.dtype)} {name}_best[{tile}];",
                f"for (int64_t j = 0; j < width; ++j) {name}_best[j] = {start_value(a)};",
            ]
        return [
            f"{'double' if _is_wide(a) else ctype(a.dtype)} {name}_acc[{tile}];",
            f"for (int64_t j = 0; j < width; ++j) {name}_acc[j] = {start_value(a)};",
        ]

    def _columns(self, body: list[str]) -> list[str]:
        return [
            simd(body),
            "for (int64_t j = 0; j < width; ++j) {",
            f"  const int64_t {self.column} = left + j;",
            *indent(body),
            "}",
        ]

    def _row_stores(self) -> list[str]:
        stores = [s for s in self.kernel.stores.values() if s.level == "row"]
        lines = self._columns(self._body([Item(s.value, store=s) for s in stores])) if stores else []
        for a in self.full:
            name = cname(a.name)
            self.scope.enter_elements()
            self.scope.count([a.body])
            text = self.scope.text(a.body)
            body = [*self.scope.lines[ELEMENT], f"{name}_tile = {combine_text(a, text, f'{name}_tile', self.needs)};"]
            lines += [f"{ctype(a.dtype)} {name}_tile = {start_value(a)};", *self._columns(body)[1:]]
            lines.append(f"{name}_part[{self._tile_number()}] = {name}_tile;")
        before, self.scope.lines[ROW] = self.scope.lines[ROW], []
        return [*before, *lines]

    def _size(self, dim: int) -> str:
        return index_text(self.kernel.dims[dim], self.scope.text)

    def _tile_number(self) -> str:
        text = "0"
        for name, dim in zip(self.outer, self.kernel.outer[:-1], strict=True):
            text = f"({text}) * ({self._size(dim)}) + {name}"
        return f"({text}) * tiles + left / {self.settings.tile}"

    def _parallel(self, body: list[str]) -> list[str]:
        width, tile = self._size(self.kernel.outer[-1]), self.settings.tile
        lines = [f"const int64_t tiles = ({width} + {tile - 1}) / {tile};"] if self.full else []
        for a in self.full:
            lines.append(f"ks_array<{ctype(a.dtype)}> {cname(a.name)}_part({self._partials()});")
        sizes = map(self._size, self.kernel.outer[:-1])
        loops = nest(zip(self.outer, sizes, strict=True), tiled(width, tile, body))
        work = index_text(product(self.kernel.dims), self.scope.text)
        clauses = f"{shares(len(self.outer) + 1, self.settings)} {team(work, self.settings, loops)}"
        return [*lines, f"#pragma omp parallel for{clauses}", *loops]

    def _partials(self) -> str:
        outer = index_text(product(self.kernel.dims[d] for d in self.kernel.outer[:-1]), self.scope.text)
        return f"({outer}) * tiles"

    def _full_tail(self) -> list[str]:
        lines = []
        for a in self.full:
            name, t = cname(a.name), ctype(a.dtype)
            text = combine_text(a, f"{name}_part[k]", name, self.needs)
            lines += [
                f"{t} {name} = {start_value(a)};",
                f"for (int64_t k = 0; k < {self._partials()}; ++k) {name} = {text};",
            ]
        return [*lines, *after_all_rows(self.kernel, self.full, self.scope)]


def _is_wide(a: Accumulation) -> bool:
    """Whether a column is summed in double: its numbers come one after the other, and thousands of float32 reach the
    bound where they nearly cancel."""
    return a.level == "row" and a.dtype == "float32" and a.op == "sum"
