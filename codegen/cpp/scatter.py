"""Sums by an index: every thread adds what belongs to its own rows, in order, so that no two write to one place."""

from ..ir.loops import ScatterKernel
from ..ir.poly import Poly, product
from ..ir.ranges import surely_inside
from ..ir.scalar import Scalar
from ..ir.tunables import Settings
from ..lowering.views import linear
from .passes_types import indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import Needs, index_text


def scatter_lines(kernel: ScatterKernel, settings: Settings, needs: Needs) -> list[str]:
    """Statements of the C++ function for a sum by index."""
    return _Scatter(kernel, settings, needs).lines()


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
            *self._start(),
            *self._sums(),
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
        clauses = ["num_threads(threads)", "if (threads > 1)"]
        if any("ks_wrap" in line for line in body):
            clauses.append("reduction(|:bad)")
        depth = len(self.outer) + 1
        collapse = f" collapse({depth})" if depth > 1 else ""
        pragma = f"#pragma omp parallel for{collapse} schedule(static) {' '.join(clauses)}"
        loop = ["for (int64_t part = 0; part < parts; ++part) {", *indent(body), "}"]
        return ["int64_t bad = 0;", *self.scope.lines[FUNCTION], *head, pragma, *loop, "return bad;"]

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
        index = kernel.index if surely_inside(kernel.index, rows) else Scalar("wrap", "int64", (kernel.index,), (rows,))
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
            lines = [*before, *value, *self._inner(body, simd=False)]
        else:
            skip = "if (row < low || row >= high) continue;"
            lines = [*before, row, skip, *value, *self._inner([*scope.lines[ELEMENT], add])]
        size = self._sizes()[kernel.axis]
        return [f"for (int64_t {self.axis} = 0; {self.axis} < {size}; ++{self.axis}) {{", *indent(lines), "}"]

    def _inner(self, body: list[str], simd: bool = True) -> list[str]:
        lines = body
        for place, (name, size) in enumerate(
            reversed(list(zip(self.inner, self._sizes()[-len(self.inner) :], strict=False)))
        ):
            head = []
            if not place and simd:
                checked = any("ks_wrap" in line for line in body)
                head = ["#pragma omp simd reduction(|:bad)" if checked else "#pragma omp simd"]
            lines = [*head, f"for (int64_t {name} = 0; {name} < {size}; ++{name}) {{", *indent(lines), "}"]
        return lines

    def _place(self, row: str) -> str:
        at = [Poly((((name,), 1),)) for name in [*self.outer, row, *self.inner]]
        return f"{cname(self.kernel.buffer.name)}_out[{self._text(linear(at, self.kernel.buffer.shape))}]"

    def _sizes(self) -> list[str]:
        return [self._text(size) for size in self.kernel.dims]

    def _text(self, size: Poly) -> str:
        return index_text(size, self.scope.text)
