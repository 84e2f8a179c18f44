"""Writes a loop kernel as a C++ function: parallel outer loops, passes over the inner ones, row buffers between."""

from dataclasses import replace

from ..ir.build import is_float
from ..ir.loops import Accumulation, Kernel
from ..ir.poly import product
from ..ir.scalar import Scalar
from ..ir.tunables import Settings
from ..lowering.collapse import collapse
from ..lowering.online import OnlinePair, from_maxima, online_pairs
from ..lowering.row_buffer import kept_values
from .online import online_lines
from .parallel import shares, team
from .passes import CASCADE, PassWriter, after_all_rows, combine_text, fold_text, start_value, store_line
from .passes_types import Item, Range, indent
from .scope import FUNCTION, ROW, Scope, cname
from .text import Needs, ctype, index_text


def kernel_body(kernel: Kernel, settings: Settings, needs: Needs, exact: frozenset[str] = frozenset()) -> list[str]:
    """Statements of the C++ function for ``kernel``; arguments are named as :func:`signature` names them.

    Exponentials of the nodes ``exact`` may be subnormal.
    """
    kernel = collapse(kernel)
    if settings.math == "accurate" and not settings.online:
        kernel = from_maxima(kernel, exact)
    if kernel.reduced is None:
        return _Rows(_as_rows(kernel), settings, needs, pointwise=True).lines()
    if not kernel.outer:
        return _Rows(_split_full(kernel), settings, needs).lines()
    if len(kernel.dims) - 1 not in kernel.reduced:
        from .columns import column_lines

        return column_lines(kernel, settings, needs)
    return _Rows(kernel, settings, needs).lines()


def _as_rows(kernel: Kernel) -> Kernel:
    """A pointwise kernel: its last dimension is the row."""
    last = len(kernel.dims) - 1
    return replace(kernel, reduced=frozenset({last} if last >= 0 else ()))


def _split_full(kernel: Kernel) -> Kernel:
    """A reduction of everything: rows over the last dimension, whose results are then reduced over the others."""
    rows, full = {}, {}
    for name, a in {a.name: a for a in kernel.accumulations.values()}.items():
        partial = f"{a.name}_row"
        rows[partial] = replace(a, name=partial)
        full[name] = replace(a, level="full", body=Scalar("result", a.dtype, data=partial))
    return replace(kernel, reduced=frozenset({len(kernel.dims) - 1}), accumulations={**rows, **full})


def _lanes(kernel: Kernel, most: int) -> int:
    """Accumulators of a reduction: no more than a row of known length has elements."""
    length = kernel.dims[kernel.inner[-1]].constant if kernel.inner else None
    return most if length is None or length >= most else 1 << (max(length, 1).bit_length() - 1)


class _Rows:
    def __init__(self, kernel: Kernel, settings: Settings, needs: Needs, pointwise: bool = False) -> None:
        self.kernel = kernel
        self.settings = settings = replace(settings, lanes=_lanes(kernel, settings.lanes))
        self.needs = needs
        self.pointwise = pointwise
        self.inner = [f"i{d}" for d in kernel.inner]
        self.outer = [f"i{d}" for d in kernel.outer]
        unique = {a.name: a for a in kernel.accumulations.values()}
        self.rows = [a for a in unique.values() if a.level == "row"]
        self.full = [a for a in unique.values() if a.level == "full"]
        self.chunked = not self.outer and bool(self.full)
        self.scope = Scope(needs, set(self.inner), set(self.outer), settings.search)
        self.scope.taken |= set(kernel.accumulations) | {cname(s.buffer.name) for s in kernel.stores.values()}
        self.scope.reserve(kernel.roots())
        self.acc_type = {a.name: self._acc_type(a) for a in unique.values()}
        self.passes = PassWriter(self.scope, settings.lanes, self.acc_type)
        self.passes.prefetch = settings.prefetch
        self.passes.stream = settings.stream
        self.pairs = online_pairs(kernel) if settings.online and len(kernel.inner) == 1 and self.outer else []
        self.kept = kept_values(kernel, settings.row_buffer) if not pointwise else []
        # A block's exponentials are taken before the row's maximum is known: later passes cannot use them.
        early = {f"@{pair.maximum.name}" for pair in self.pairs}
        self.kept = [k for k in self.kept if not k.value.names & early]
        for name in unique:
            self.scope.results[name] = cname(name)

    def _acc_type(self, a: Accumulation) -> str:
        wide = self.settings.double_sums and a.dtype == "float32" and a.op in ("sum", "prod")
        return "double" if wide else ctype(a.dtype)

    def lines(self) -> list[str]:
        """The whole function body."""
        body = self._row()
        loops = self._parallel(body)
        tail = self._full_tail() if any(s.level == "full" for s in self.kernel.stores.values()) else []
        return ["int64_t bad = 0;", *self.scope.lines[FUNCTION], *loops, *tail, "return bad;"]

    # One row

    def _row(self) -> list[str]:
        count = max((self.kernel.pass_of(r) for r in self._element_roots()), default=-1) + 1
        lines: list[str] = []
        for number in range(count):
            lines += self._pass(number)
        lines += self._row_stores()
        return lines

    def _element_roots(self) -> list[Scalar]:
        stores = [s.value for s in self.kernel.stores.values() if s.level == "element"]
        return [a.body for a in self.rows] + stores

    def _pass(self, number: int) -> list[str]:
        paired = {a.name for pair in self.pairs for a in (pair.maximum, pair.total)}
        accumulations = [a for a in self.rows if self.kernel.pass_of(a.body) == number and a.name not in paired]
        stores = [
            s for s in self.kernel.stores.values() if s.level == "element" and self.kernel.pass_of(s.value) == number
        ]
        keeps = [k for k in self.kept if k.first == number]
        items = [Item(k.value, keep=k.name) for k in keeps]
        items += [Item(a.body, accumulation=a) for a in accumulations]
        items += [Item(s.value, store=s) for s in stores]
        items = [self._with_kept(item, number) for item in items]
        online = [line for p in self.pairs if self.kernel.pass_of(p.maximum.body) == number for line in self._online(p)]
        if not items:
            return online
        self.passes.summed = f"summed{number}" if self._is_long else ""
        head = [line for a in accumulations for line in self._declare(a)]
        if any(self.passes.cascades(a) for a in accumulations):
            head.append(f"int64_t {self.passes.summed} = 0;")
        loops = self._nest(items)
        folds = [line for a in accumulations for line in self._fold(a)]
        self.passes.summed = ""
        before, self.scope.lines[ROW] = self.scope.lines[ROW], []
        return [*online, *before, *head, *loops, *folds]

    @property
    def _is_long(self) -> bool:
        """Whether a row may have so many elements that a lane adds more than :data:`CASCADE`."""
        length = product(self.kernel.dims[d] for d in self.kernel.inner).constant
        return length is None or length > CASCADE * self.settings.lanes

    def _online(self, pair: OnlinePair) -> list[str]:
        size = self._size(self.kernel.inner[-1])
        name = self.inner[-1]
        return online_lines(pair, size, name, self.scope, self.passes, self.needs, self._declare, self._fold)

    def _with_kept(self, item: Item, number: int) -> Item:
        from ..lowering.row_buffer import read_kept

        buffers = [k for k in self.kept if k.first < number or (k.first == number and k.name != item.keep)]
        buffers = [k for k in buffers if not (item.keep and k.first == number)]
        return replace(item, value=read_kept(item.value, buffers))

    def _nest(self, items: list[Item]) -> list[str]:
        if not self.inner:
            return self._once(items)
        last = self.inner[-1]
        size = self._size(self.kernel.inner[-1])
        low, high = ("low", "high") if self._tiled else ("0", size)
        lines = self.passes.loops(items, Range(last, low, high))
        for name, dim in reversed(list(zip(self.inner[:-1], self.kernel.inner[:-1], strict=True))):
            head = f"for (int64_t {name} = 0; {name} < {self._size(dim)}; ++{name}) {{"
            lines = [head, *indent(lines), "}"]
        return lines

    def _once(self, items: list[Item]) -> list[str]:
        self.scope.count([item.value for item in items])
        lines = [store_line(i.store, self.scope.text(i.value), self.scope) for i in items if i.store is not None]
        return [*self.scope.lines[2], *lines]

    def _declare(self, a: Accumulation) -> list[str]:
        lanes, name, wide = self.settings.lanes, cname(a.name), self.acc_type[a.name]
        start = start_value(a)
        lines = [
            f"{wide} {name}_acc[{lanes}];",
            f"for (int l = 0; l < {lanes}; ++l) {name}_acc[l] = {start};",
        ]
        if a.op in ("argmax", "argmin"):
            lines.append(f"int64_t {name}_at[{lanes}] = {{0}};")
        if self.passes.cascades(a):
            lines.append(f"double {name}_sum = 0;")
        return lines

    def _fold(self, a: Accumulation) -> list[str]:
        name, wide = cname(a.name), self.acc_type[a.name]
        if a.op in ("argmax", "argmin"):
            return self._fold_position(a, name)
        combine = combine_text(a, "y", "x", self.needs)
        if wide != ctype(a.dtype):
            combine = combine.replace(f"<{ctype(a.dtype)}>", f"<{wide}>")
        text = fold_text(f"{name}_acc", wide, combine, self.needs)
        if self.passes.cascades(a):
            text = f"({name}_sum + {text})"
        return [f"const {ctype(a.dtype)} {name} = ({ctype(a.dtype)}){text};"]

    def _fold_position(self, a: Accumulation, name: str) -> list[str]:
        sign = ">" if a.op == "argmax" else "<"
        return [
            f"int {name}_lane = 0;  // the first of equals; NaN is the extreme",
            f"for (int l = 1; l < {self.settings.lanes}; ++l) {{",
            f"  const {ctype(a.dtype)} x = {name}_acc[l], y = {name}_acc[{name}_lane];",
            f"  const bool earlier = {name}_at[l] < {name}_at[{name}_lane];",
            "  const bool same = (x == y) | ((x != x) & (y != y));",
            f"  if ((x {sign} y) | ((x != x) & (y == y)) | (same & earlier)) {name}_lane = l;",
            "}",
            f"const int64_t {name} = {name}_at[{name}_lane];",
        ]

    def _row_stores(self) -> list[str]:
        stores = [s for s in self.kernel.stores.values() if s.level == "row"]
        self.scope.count([s.value for s in stores] + [a.body for a in self.full])
        lines = [store_line(s, self.scope.text(s.value), self.scope) for s in stores]
        for a in self.full:
            text = self.scope.text(a.body)
            place = f"{cname(a.name)}_part[{self._partial_index()}]"
            lines.append(f"{place} = {text};")
        before, self.scope.lines[ROW] = self.scope.lines[ROW], []
        return [*before, *lines]

    # Around the rows

    @property
    def _tiled(self) -> bool:
        return (self.pointwise and bool(self.inner)) or self.chunked

    def _size(self, dim: int) -> str:
        return index_text(self.kernel.dims[dim], self.scope.text)

    def _partial_index(self) -> str:
        if self.chunked:
            return "chunk"
        from ..lowering.views import linear

        at = [self.kernel.variables[d] for d in self.kernel.outer]
        return index_text(linear(at, [self.kernel.dims[d] for d in self.kernel.outer]), self.scope.text)

    def _partials(self) -> str:
        if self.chunked:
            return "chunks"
        return index_text(product(self.kernel.dims[d] for d in self.kernel.outer), self.scope.text)

    def _parallel(self, row: list[str]) -> list[str]:
        lines: list[str] = []
        if self.chunked:
            size = self._size(self.kernel.inner[-1])
            lines.append(f"const int64_t chunks = ({size} + {self.settings.block - 1}) / {self.settings.block};")
        for a in self.full:
            lines.append(f"ks_array<{ctype(a.dtype)}> {cname(a.name)}_part({self._partials()});")
        nest, loops = self._outer_loops(row)
        if not loops:
            return [*lines, *nest]
        return [*lines, *self._region(nest, loops)]

    def _outer_loops(self, row: list[str]) -> tuple[list[str], int]:
        loops = [(name, "0", self._size(dim), "++{}") for name, dim in zip(self.outer, self.kernel.outer, strict=True)]
        body = row
        if self.chunked:
            loops.append(("chunk", "0", "chunks", "++{}"))
            size = self._size(self.kernel.inner[-1])
            block = self.settings.block
            body = [f"const int64_t low = chunk * {block}, high = ks_min<int64_t>({size}, low + {block});", *row]
        elif self._tiled:
            size = self._size(self.kernel.inner[-1])
            block = self.settings.block
            loops.append(("low", "0", size, f"{{}} += {block}"))
            body = [f"const int64_t high = ks_min<int64_t>({size}, low + {block});", *row]
        lines = body
        for name, low, high, step in reversed(loops):
            lines = [f"for (int64_t {name} = {low}; {name} < {high}; {step.format(name)}) {{", *indent(lines), "}"]
        return lines, len(loops)

    def _region(self, nest: list[str], loops: int) -> list[str]:
        work = index_text(product(self.kernel.dims), self.scope.text)
        scratch = [line for k in self.kept for line in self._scratch(k.name, k.value.dtype)]
        return [
            f"#pragma omp parallel {team(work, self.settings, nest)}",
            "{",
            *indent(scratch),
            f"  #pragma omp for{shares(loops, self.settings)}",
            *indent(nest),
            *(["  ks_stream_end();"] if any("ks_stream(" in line for line in nest) else []),
            "}",
        ]

    def _scratch(self, name: str, dtype: str) -> list[str]:
        size = self._size(self.kernel.inner[-1])
        t = ctype(dtype)
        return [
            f"ks_array<{t}> {name}_memory({size});",
            f"{t}* __restrict {name} = {name}_memory.data;",
        ]

    # After all rows

    def _full_tail(self) -> list[str]:
        lines = [line for a in self.full for line in self._combine(a)]
        return [*lines, *after_all_rows(self.kernel, self.full, self.scope)]

    def _combine(self, a: Accumulation) -> list[str]:
        """In order, so that the result does not depend on the number of threads."""
        name = cname(a.name)
        wide = "double" if is_float(a.dtype) and a.op == "sum" else ctype(a.dtype)
        text = combine_text(a, f"({wide}){name}_part[k]", f"{name}_all", self.needs)
        return [
            f"{wide} {name}_all = {start_value(a)};",
            f"for (int64_t k = 0; k < {self._partials()}; ++k) {name}_all = {text};",
            f"const {ctype(a.dtype)} {name} = ({ctype(a.dtype)}){name}_all;",
        ]
