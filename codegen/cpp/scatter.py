"""Sums by an index in C++: every thread adds the elements of its own result rows, in order, without conflicts."""

from ..ir.loops import ScatterKernel
from ..ir.poly import Poly, product, variable
from ..ir.ranges import surely_inside
from ..ir.scalar import Scalar, rewrite
from ..ir.tunables import Settings
from ..lowering.views import linear
from .parallel import checking, collapsed, nest, simd
from .passes_types import indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import Needs, ctype, index_text


def scatter_lines(kernel: ScatterKernel, settings: Settings, needs: Needs) -> list[str]:
    """Statements of the C++ function for a sum by index."""
    return _Scatter(kernel, settings, needs).lines()


_BLOCK = 64
"""Columns of a row whose sums stay in registers."""


class _Scatter:
    def __init__(self, kernel: ScatterKernel, settings: Settings, needs: Needs) -> None:
        self.kernel = kernel
        self.settings = settings
        self.needs = needs
        names = [f"i{d}" for d in range(len(kernel.dims))]
        self.axis = names[kernel.axis]
        self.outer, self.inner = names[: kernel.axis], names[kernel.axis + 1 :]
        self.scope = Scope(needs, set(self.inner), {*self.outer, self.axis}, settings.search)
        self.scope.reserve(kernel.roots())
        self.scope.taken |= {cname(kernel.buffer.name), "row", "part", "parts", "threads"}
        self.rows = self._text(kernel.buffer.shape[kernel.axis])

    def lines(self) -> list[str]:
        """The whole function body."""
        body = [
            "const int64_t low = rows * part / parts, high = rows * (part + 1) / parts;",
            *(self._segments() if self._is_ragged() else [*self._start(), *self._sums()]),
        ]
        for name, size in reversed(list(zip(self.outer, self._sizes(), strict=False))):
            body = [f"for (int64_t {name} = 0; {name} < {size}; ++{name}) {{", *indent(body), "}"]
        settings = self.settings
        outer = self._text(product(self.kernel.dims[: self.kernel.axis]))
        work = self._text(product(self.kernel.dims) + product(self.kernel.buffer.shape))
        threads = str(settings.threads) if settings.threads else "omp_get_max_threads()"
        # Places before the axis are shared out instead, where there are enough of them.
        head = [
            f"const int64_t rows = {self.rows}, threads = {work} < {settings.serial_below} ? 1 : {threads};",
            f"const int64_t parts = {outer} >= threads ? 1 : threads;",
        ]
        clauses = ["schedule(static)", "num_threads(threads)", "if (threads > 1)", *checking(body)]
        pragma = f"#pragma omp parallel for{collapsed(len(self.outer) + 1)} {' '.join(clauses)}"
        loop = ["for (int64_t part = 0; part < parts; ++part) {", *indent(body), "}"]
        return ["int64_t bad = 0;", *self.scope.lines[FUNCTION], *head, pragma, *loop, "return bad;"]

    def _is_ragged(self) -> bool:
        """Whether the rows' elements lie one after the other, from one offset to the next."""
        index, rows = self.kernel.index, self.kernel.buffer.shape[self.kernel.axis]
        along = index.op == "segment" and index.polys == (variable(self.axis), rows + 1)
        return along and len(self.inner) == 1 and self.inner[0] not in index.names

    def _segments(self) -> list[str]:
        """Row by row, so many columns at once as registers hold; nothing is looked up."""
        kernel, scope = self.kernel, self.scope
        scope.outer.add("row")
        name, size, t = self.inner[0], self._sizes()[-1], ctype(kernel.value.dtype)
        row = Scalar("index", "int64", polys=(variable("row"),))
        value = rewrite(kernel.value, lambda node: row if node.key == kernel.index.key else None)
        base = rewrite(kernel.base, lambda node: None, {self.axis: variable("row")})
        scope.enter_elements()
        scope.count([base])
        set_to = f"sum[l] = {scope.text(base)};"
        start = [*scope.lines[ELEMENT], set_to]
        before, scope.lines[ROW] = scope.lines[ROW], []
        scope.available[ROW] = {}
        scope.enter_elements()
        scope.count([value])
        add = f"sum[l] += {scope.text(value)};"
        each, scope.lines[ROW] = scope.lines[ROW], []
        added = [*scope.lines[ELEMENT], add]
        store = f"{self._place('row')} = sum[l];"
        offsets = cname(kernel.index.data)

        def columns(body: list[str], count: str) -> list[str]:
            here = f"const int64_t {name} = {name}_block + l;"
            head = f"for (int l = 0; l < {count}; ++l) {{"
            return [simd(body), head, *indent([here, *body]), "}"]

        def block(count: str) -> list[str]:
            position = f"for (int64_t {self.axis} = first; {self.axis} < stop; ++{self.axis}) {{"
            sums = [position, *indent([*each, *columns(added, count)]), "}"]
            return [f"{t} sum[{_BLOCK}];", *columns(start, count), *sums, *columns([store], count)]

        lines = [
            *before,
            f"const int64_t first = {offsets}[row], stop = {offsets}[row + 1];",
            f"int64_t {name}_block = 0;",
            f"for (; {name}_block + {_BLOCK} <= {size}; {name}_block += {_BLOCK}) {{",
            *indent(block(str(_BLOCK))),
            "}",
            f"if ({name}_block < {size}) {{",
            *indent(block(f"int({size} - {name}_block)")),
            "}",
        ]
        return ["for (int64_t row = low; row < high; ++row) {", *indent(lines), "}"]

    def _start(self) -> list[str]:
        """The base, in the part's rows."""
        self.scope.enter_elements()
        self.scope.count([self.kernel.base])
        store = f"{self._place(self.axis)} = {self.scope.text(self.kernel.base)};"
        row, self.scope.lines[ROW] = self.scope.lines[ROW], []
        # What is known of a row here is another thing than of the source's rows.
        self.scope.available[ROW] = {}
        loop = self._inner([*self.scope.lines[ELEMENT], store])
        return [f"for (int64_t {self.axis} = low; {self.axis} < high; ++{self.axis}) {{", *indent([*row, *loop]), "}"]

    def _sums(self) -> list[str]:
        kernel, scope = self.kernel, self.scope
        varies = bool(kernel.index.names & set(self.inner))
        rows = kernel.buffer.shape[kernel.axis]
        wrapped = Scalar("wrap", "int64", (kernel.index,), (rows,))
        index = kernel.index if surely_inside(kernel.index, rows) else wrapped
        scope.enter_elements()
        scope.count([index])
        row = f"const int64_t row = {scope.text(index)};"
        before, scope.lines[ROW] = scope.lines[ROW], []
        checks = scope.lines[ELEMENT]
        scope.enter_elements()
        scope.count([kernel.value])
        add = f"{self._place('row')} += {scope.text(kernel.value)};"
        value, scope.lines[ROW] = scope.lines[ROW], []
        if varies:
            body = [*checks, row, "if (row < low || row >= high) continue;", *scope.lines[ELEMENT], add]
            lines = [*before, *value, *self._inner(body, vectors=False)]
        else:
            skip = "if (row < low || row >= high) continue;"
            lines = [*before, row, skip, *value, *self._inner([*scope.lines[ELEMENT], add])]
        size = self._sizes()[kernel.axis]
        return [f"for (int64_t {self.axis} = 0; {self.axis} < {size}; ++{self.axis}) {{", *indent(lines), "}"]

    def _inner(self, body: list[str], vectors: bool = True) -> list[str]:
        loops = list(zip(self.inner, self._sizes()[-len(self.inner) :], strict=False))
        if not loops:
            return body
        head = [simd(body)] if vectors else []
        return nest(loops[:-1], [*head, *nest(loops[-1:], body)])

    def _place(self, row: str) -> str:
        at = [Poly((((name,), 1),)) for name in [*self.outer, row, *self.inner]]
        return f"{cname(self.kernel.buffer.name)}_out[{self._text(linear(at, self.kernel.buffer.shape))}]"

    def _sizes(self) -> list[str]:
        return [self._text(size) for size in self.kernel.dims]

    def _text(self, size: Poly) -> str:
        return index_text(size, self.scope.text)
