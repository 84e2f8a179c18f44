"""Running sums, segment offsets and compactions as C++ functions."""

from .cpp_passes import indent
from .cpp_scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .cpp_text import Needs, ctype, index_text, store_text
from .knobs import Settings
from .loops import SpecialKernel
from .poly import Poly, product
from .scalar import Scalar, rewrite


def special_functions(kernel: SpecialKernel, settings: Settings, needs: Needs) -> dict[str, list[str]]:
    """Bodies of the C++ functions of a special kernel, by suffix of the function's name."""
    if kernel.kind == "compact":
        return _Compact(kernel, settings, needs).functions()
    return {"": _scan(kernel, settings, needs)}


def _scan(kernel: SpecialKernel, settings: Settings, needs: Needs) -> list[str]:
    """Serial along the scanned dimension, parallel over the others."""
    last = f"i{len(kernel.dims) - 1}"
    outer = [f"i{d}" for d in range(len(kernel.dims) - 1)]
    scope = Scope(needs, {last}, set(outer), settings.search)
    scope.reserve([kernel.value])
    scope.count([kernel.value])
    t, out = ctype(kernel.value.dtype), f"{cname(kernel.buffer.name)}_out"
    text = scope.text(kernel.value)
    size = index_text(kernel.dims[-1], scope.text)
    row = "".join(f"({v}) * {index_text(product(kernel.dims[d + 1 :]), scope.text)} + " for d, v in enumerate(outer))
    body = scope.lines[ELEMENT]
    stored = store_text(kernel.buffer.dtype, "sum", needs)
    if kernel.kind == "offsets":
        body = [f"{out}[{last}] = sum;", *body, f"sum += {text};"]
    else:
        body = [*body, f"sum += {text};", f"{out}[{row}{last}] = {stored};"]
    lines = [
        *scope.lines[ROW],
        f"{t} sum = 0;",
        f"for (int64_t {last} = 0; {last} < {size}; ++{last}) {{",
        *indent(body),
        "}",
    ]
    if kernel.kind == "offsets":
        lines.append(f"{out}[{size}] = sum;")
    for d, name in reversed(list(enumerate(outer))):
        lines = [
            f"for (int64_t {name} = 0; {name} < {index_text(kernel.dims[d], scope.text)}; ++{name}) {{",
            *indent(lines),
            "}",
        ]
    if outer:
        checked = " reduction(|:bad)" if any("ks_wrap" in line for line in lines) else ""
        depth = f" collapse({len(outer)})" if len(outer) > 1 else ""
        lines = [f"#pragma omp parallel for{depth} schedule(static){checked}", *lines]
    return ["int64_t bad = 0;", *scope.lines[FUNCTION], *lines, "return bad;"]


class _Compact:
    """Two functions: ``count`` counts what is kept for every chunk of positions, ``fill`` writes from the chunks' starts.

    The mask is computed twice instead of stored: it is a comparison most of the time. Where it depends on the position
    only through its segment of a ragged dimension, whole segments are counted and copied.
    """

    def __init__(self, kernel: SpecialKernel, settings: Settings, needs: Needs) -> None:
        assert kernel.mask is not None
        self.kernel = kernel
        self.needs = needs
        self.settings = settings
        count = len(kernel.dims) - kernel.trailing
        self.positions = [f"i{d}" for d in range(count)]
        self.segments = self._segments(kernel.mask) if count == 1 and not kernel.trailing else None

    def _segments(self, mask: Scalar) -> Scalar | None:
        found = [n for n in mask.walk() if n.op == "segment" and n.polys[0] == Poly(((("i0",), 1),))]
        if not found:
            return None
        marker = Scalar("result", "int64", data="segment")
        rest = rewrite(mask, lambda n: marker if n.key == found[0].key else None)
        return found[0] if "i0" not in rest.names else None

    def functions(self) -> dict[str, list[str]]:
        """Bodies of ``count`` and ``fill``."""
        if self.segments is not None:
            return {"_count": self._by_segment(False), "_fill": self._by_segment(True)}
        return {"_count": self._by_position(False), "_fill": self._by_position(True)}

    def _scope(self, inner: set[str]) -> Scope:
        scope = Scope(self.needs, inner, set(), self.settings.search)
        scope.reserve(self.kernel.roots())
        scope.taken |= {"chunk", "chunks", "kept", "total", "low", "high"}
        return scope

    def _by_position(self, fill: bool) -> list[str]:
        kernel = self.kernel
        assert kernel.mask is not None
        names = {f"i{d}" for d in range(len(kernel.dims))}
        scope = self._scope(names)
        total = index_text(product(kernel.dims[: len(self.positions)]), scope.text)
        body = self._place(scope)
        scope.count([kernel.mask, kernel.value] if fill else [kernel.mask])
        scope.enter_elements()
        mask = scope.text(kernel.mask)
        body += scope.lines[ELEMENT]
        if not fill:
            body.append(f"kept += {mask};")
        else:
            scope.enter_elements()
            scope.inline = bool(kernel.trailing)
            body += self._write(scope, mask)
        simd = [] if fill or len(self.positions) > 1 else ["#pragma omp simd reduction(+:kept)" + self._checked(body)]
        loop = [*simd, "for (int64_t p = low; p < high; ++p) {", *indent(body), "}"]
        return self._chunks(scope, total, loop, fill)

    def _checked(self, body: list[str]) -> str:
        return " reduction(|:bad)" if any("ks_wrap" in line for line in body) else ""

    def _place(self, scope: Scope) -> list[str]:
        """The index of position ``p``."""
        if len(self.positions) == 1:
            return [f"const int64_t {self.positions[0]} = p;"]
        lines, rest = [], "p"
        for d in range(len(self.positions) - 1, 0, -1):
            size = index_text(self.kernel.dims[d], scope.text)
            lines.append(f"const int64_t {self.positions[d]} = {rest} % ({size});")
            rest = f"({rest} / ({size}))"
        return [*lines, f"const int64_t {self.positions[0]} = {rest};"]

    def _write(self, scope: Scope, mask: str) -> list[str]:
        kernel = self.kernel
        out = f"{cname(kernel.buffer.name)}_out"
        dtype = kernel.buffer.dtype
        if not kernel.trailing:
            text = store_text(dtype, scope.text(kernel.value), self.needs)
            return [f"if ({mask}) {{", *indent(scope.lines[ELEMENT]), f"  {out}[kept++] = {text};", "}"]
        text = store_text(dtype, scope.text(kernel.value), self.needs)
        inner = [f"{out}[at++] = {text};"]
        for d in range(len(kernel.dims) - 1, len(self.positions) - 1, -1):
            size = index_text(kernel.dims[d], scope.text)
            inner = [f"for (int64_t i{d} = 0; i{d} < {size}; ++i{d}) {{", *indent(inner), "}"]
        width = index_text(product(kernel.dims[len(self.positions) :]), scope.text)
        return [f"if ({mask}) {{", f"  int64_t at = kept++ * ({width});", *indent(inner), "}"]

    def _by_segment(self, fill: bool) -> list[str]:
        kernel, segment = self.kernel, self.segments
        assert segment is not None
        assert kernel.mask is not None
        scope = self._scope({"i0", "@segment"})
        scope.results["segment"] = "s"
        marker = Scalar("result", "int64", data="segment")
        mask = rewrite(kernel.mask, lambda n: marker if n.key == segment.key else None)
        value = rewrite(kernel.value, lambda n: marker if n.key == segment.key else None)
        offsets = cname(segment.data)
        count = index_text(segment.polys[1] - 1, scope.text)
        scope.count([mask])
        text = scope.text(mask)
        body = [*scope.lines[ELEMENT], f"if (!({text})) continue;" if fill else ""]
        length = f"({offsets}[s + 1] - {offsets}[s])"
        if not fill:
            body = [*scope.lines[ELEMENT], f"kept += {text} ? {length} : 0;"]
        else:
            body += self._copy(scope, value, offsets)
        loop = ["for (int64_t s = low; s < high; ++s) {", *indent(body), "}"]
        return self._chunks(scope, count, loop, fill)

    def _copy(self, scope: Scope, value: Scalar, offsets: str) -> list[str]:
        scope.enter_elements()
        scope.count([value])
        text = store_text(self.kernel.buffer.dtype, scope.text(value), self.needs)
        out = f"{cname(self.kernel.buffer.name)}_out"
        # A segment may be shorter than a vector or much longer: the loop is left to the compiler.
        return [
            f"const int64_t begin = {offsets}[s], end = {offsets}[s + 1];",
            "#pragma omp simd" + self._checked(scope.lines[ELEMENT]),
            "for (int64_t i0 = begin; i0 < end; ++i0) {",
            *indent(scope.lines[ELEMENT]),
            f"  {out}[kept + i0 - begin] = {text};",
            "}",
            "kept += end - begin;",
        ]

    def _chunks(self, scope: Scope, total: str, loop: list[str], fill: bool) -> list[str]:
        start = "int64_t kept = starts[chunk];" if fill else "int64_t kept = 0;"
        end = [] if fill else ["starts[chunk] = kept;"]
        checked = " reduction(|:bad)" if any("ks_wrap" in line for line in loop) else ""
        lines = [
            "int64_t bad = 0;",
            *scope.lines[FUNCTION],
            f"const int64_t total = {total};",
            f"#pragma omp parallel for schedule(static) if (total >= {self.settings.serial_below}){checked}",
            "for (int64_t chunk = 0; chunk < chunks; ++chunk) {",
            "  const int64_t low = total * chunk / chunks, high = total * (chunk + 1) / chunks;",
            f"  {start}",
            *indent([*scope.lines[ROW], *loop, *end]),
            "}",
        ]
        if fill:
            return [*lines, "return bad;"]
        return [
            *lines,
            "int64_t sum = 0;",
            "for (int64_t chunk = 0; chunk < chunks; ++chunk) {",
            "  const int64_t here = starts[chunk];",
            "  starts[chunk] = sum;",
            "  sum += here;",
            "}",
            "return bad ? -1 : sum;",
        ]
