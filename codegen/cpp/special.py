"""Running sums, segment offsets and compactions as C++ functions."""

from ..ir.loops import AttentionKernel, RecurrentKernel, ScatterKernel, SpecialKernel, SteppedKernel
from ..ir.poly import product, variable
from ..ir.scalar import Scalar, rewrite
from ..ir.tunables import Settings
from ..lowering.views import linear
from .attention import Attention
from .attention_few import FewQueries
from .lookup_blocks import BLOCK, stage
from .parallel import checking, collapsed, nest
from .passes_types import Item, Range, indent
from .recurrence import recurrence_lines
from .scatter import scatter_lines
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .steps import stepped_lines
from .text import Needs, ctype, index_text, store_text

_TILE = 256
"""Columns whose running sums are kept at once, where there are many; else a quarter, so that all cores have some."""


def special_functions(kernel: SpecialKernel, settings: Settings, needs: Needs) -> dict[str, list[str]]:
    """Bodies of the C++ functions of a special kernel, by suffix of the function's name."""
    if kernel.kind == "compact":
        return _Compact(kernel, settings, needs).functions()
    if isinstance(kernel, RecurrentKernel):
        return {"": recurrence_lines(kernel, settings, needs)}
    if isinstance(kernel, SteppedKernel):
        return {"": stepped_lines(kernel, settings, needs)}
    if isinstance(kernel, AttentionKernel):
        return {"": (FewQueries if kernel.is_few else Attention)(kernel, settings, needs).lines()}
    if isinstance(kernel, ScatterKernel):
        return {"": scatter_lines(kernel, settings, needs)}
    if kernel.kind == "scan" and kernel.along != len(kernel.dims) - 1:
        return {"": _column_scan(kernel, settings, needs)}
    return {"": _scan(kernel, settings, needs)}


def _sum_type(kernel: SpecialKernel) -> str:
    """C++'s type of a running sum: of single precision it is PyTorch's, double."""
    t = ctype(kernel.value.dtype)
    return "double" if t == "float" else t


def _column_scan(kernel: SpecialKernel, settings: Settings, needs: Needs) -> list[str]:
    """Row after row is added to the sums of columns that lie beside each other; parallel over such tiles of columns."""
    along, column = f"i{kernel.along}", f"i{len(kernel.dims) - 1}"
    outer = [v for v in (f"i{d}" for d in range(len(kernel.dims))) if v not in (along, column)]
    scope = Scope(needs, {along, column}, set(outer), settings.search)
    scope.reserve([kernel.value])
    scope.count([kernel.value])
    t, out = _sum_type(kernel), f"{cname(kernel.buffer.name)}_out"
    text = scope.text(kernel.value)
    sizes = {f"i{d}": index_text(size, scope.text) for d, size in enumerate(kernel.dims)}
    place = index_text(linear(kernel.variables, kernel.dims), scope.text)
    lines = [
        *scope.lines[ROW],
        f"{t} sums[{_TILE}] = {{0}};",
        f"const int64_t end = begin + tile < {sizes[column]} ? begin + tile : {sizes[column]};",
        f"for (int64_t {along} = 0; {along} < {sizes[along]}; ++{along}) {{",
        f"  for (int64_t {column} = begin; {column} < end; ++{column}) {{",
        *indent(indent([*scope.lines[ELEMENT], f"const {t} sum = sums[{column} - begin] += {text};"])),
        f"    {out}[{place}] = {store_text(kernel.buffer.dtype, 'sum', needs)};",
        "  }",
        "}",
    ]
    loops = [f"for (int64_t {v} = 0; {v} < {sizes[v]}; ++{v})" for v in outer]
    loops.append(f"for (int64_t begin = 0; begin < {sizes[column]}; begin += tile)")
    checked = " reduction(|:bad)" if any("ks_wrap" in line for line in lines) else ""
    return [
        "int64_t bad = 0;",
        *scope.lines[FUNCTION],
        f"const int64_t tile = {sizes[column]} < {4 * _TILE} ? {_TILE // 4} : {_TILE};",
        f"#pragma omp parallel for collapse({len(loops)}) schedule(static){checked}",
        *loops,
        "{",
        *indent(lines),
        "}",
        "return bad;",
    ]


def _scan(kernel: SpecialKernel, settings: Settings, needs: Needs) -> list[str]:
    """Serial along the scanned dimension, parallel over the others."""
    last = f"i{len(kernel.dims) - 1}"
    outer = [f"i{d}" for d in range(len(kernel.dims) - 1)]
    scope = Scope(needs, {last}, set(outer), settings.search)
    scope.reserve([kernel.value])
    scope.count([kernel.value])
    t, out = _sum_type(kernel), f"{cname(kernel.buffer.name)}_out"
    text = scope.text(kernel.value)
    size = index_text(kernel.dims[-1], scope.text)
    row = "".join(f"({v}) * ({index_text(product(kernel.dims[d + 1 :]), scope.text)}) + " for d, v in enumerate(outer))
    body = scope.lines[ELEMENT]
    stored = store_text(kernel.buffer.dtype, "sum", needs)
    if kernel.kind == "offsets":
        body = [f"{out}[{last}] = sum;", *body, f"bad |= {text} < 0;", f"sum += {text};"]
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
    lines = nest([(name, index_text(kernel.dims[d], scope.text)) for d, name in enumerate(outer)], lines)
    if outer:
        clauses = ["schedule(static)", *checking(lines)]
        lines = [f"#pragma omp parallel for{collapsed(len(outer))} {' '.join(clauses)}", *lines]
    return ["int64_t bad = 0;", *scope.lines[FUNCTION], *lines, "return bad;"]


class _Compact:
    """Two functions: ``count`` counts what every chunk of positions keeps, ``fill`` writes from the chunks' starts on.

    The mask is computed twice instead of stored: it is a comparison most of the time. Where it depends on the position
    only through its segment of a ragged dimension, whole segments are counted and copied.
    """

    def __init__(self, kernel: SpecialKernel, settings: Settings, needs: Needs) -> None:
        assert kernel.mask is not None
        self.kernel = kernel
        self.needs = needs
        self.settings = settings
        self.places = len(kernel.dims) - kernel.trailing
        self.mask, self.value = kernel.mask, kernel.value
        self.segment = self._segment() if self.places == 1 and not kernel.trailing else None
        if self.segment is not None:
            self.mask, self.value = self._over_segments(self.mask), self._over_segments(self.value)

    def _segment(self) -> Scalar | None:
        segments = [n for n in self.mask.walk() if n.op == "segment" and n.polys[0] == variable("i0")]
        for segment in segments:
            rest = rewrite(self.mask, lambda n, key=segment.key: _SEGMENT if n.key == key else None)  # type: ignore[misc]
            if "i0" not in rest.names:
                return segment
        return None

    def _over_segments(self, value: Scalar) -> Scalar:
        assert self.segment is not None
        key = self.segment.key
        return rewrite(value, lambda n: _SEGMENT if n.key == key else None)

    def functions(self) -> dict[str, list[str]]:
        """Bodies of ``count`` and ``fill``."""
        return {"_count": self._function(False), "_fill": self._function(True)}

    def _function(self, fill: bool) -> list[str]:
        name = _SEGMENT_NAME if self.segment is not None else "i0" if self.places == 1 else "p"
        inner = {f"i{d}" for d in range(len(self.kernel.dims))} | {name}
        scope = Scope(self.needs, inner, set(), self.settings.search)
        scope.reserve(self.kernel.roots())
        scope.taken |= {"chunk", "chunks", "kept", "total", "low", "high", "keep", "where", "count", "begin", "end"}
        block = self._block(scope, Range(name, "low", "high"), fill)
        loop = [
            f"for (int64_t {name}_block = low; {name}_block < high; {name}_block += {BLOCK}) {{",
            f"  const int64_t {name}_width = ks_min<int64_t>({BLOCK}, high - {name}_block);",
            *indent(block),
            "}",
        ]
        return self._chunks(scope, self._total(scope), loop, fill)

    def _total(self, scope: Scope) -> str:
        if self.segment is not None:
            return index_text(self.segment.polys[1] - 1, scope.text)
        return index_text(product(self.kernel.dims[: self.places]), scope.text)

    def _block(self, scope: Scope, loop: Range, fill: bool) -> list[str]:
        """Which of a block's positions are kept, then what follows from it."""
        name = loop.variable
        staged = stage([Item(self.mask)], loop, scope, scope.search)
        mask = staged.items[0].value if staged else self.mask
        scope.enter_elements()
        scope.count([mask])
        text = scope.text(mask)
        checked = " reduction(|:bad)" if any("ks_wrap" in line for line in [*scope.lines[ELEMENT], text]) else ""
        lines = [
            *(staged.lines if staged else []),
            f"uint8_t keep[{BLOCK}];",
            f"#pragma omp simd{checked}",
            f"for (int64_t {name} = {name}_block; {name} < {name}_block + {name}_width; ++{name}) {{",
            *indent([*self._place(scope), *scope.lines[ELEMENT]]),
            f"  keep[{name} - {name}_block] = {text};",
            "}",
        ]
        if self.segment is not None:
            return [*lines, *(self._copy_segments(scope, name) if fill else self._count_segments(name))]
        if fill:
            return [*lines, *self._write(scope, name)]
        return [*lines, f"for (int64_t l = 0; l < {name}_width; ++l) kept += keep[l];"]

    def _place(self, scope: Scope) -> list[str]:
        """The index of position ``p``, where it has several dimensions."""
        if self.places == 1:
            return []
        lines, rest = [], "p"
        for d in range(self.places - 1, 0, -1):
            size = index_text(self.kernel.dims[d], scope.text)
            lines.append(f"const int64_t i{d} = {rest} % ({size});")
            rest = f"({rest} / ({size}))"
        return [*lines, f"const int64_t i0 = {rest};"]

    def _write(self, scope: Scope, name: str) -> list[str]:
        """First the kept positions, without branches; then their values, in one loop without holes."""
        kernel = self.kernel
        out, dtype = f"{cname(kernel.buffer.name)}_out", kernel.buffer.dtype
        scope.enter_elements()
        scope.count([self.value])
        scope.inline = bool(kernel.trailing)
        text = store_text(dtype, scope.text(self.value), self.needs)
        scope.inline = False
        checked = any("ks_wrap" in line for line in [*scope.lines[ELEMENT], text])
        body = [*self._place(scope), *scope.lines[ELEMENT]]
        if kernel.trailing:
            width = index_text(product(kernel.dims[self.places :]), scope.text)
            inner = [f"{out}[at++] = {text};"]
            for d in range(len(kernel.dims) - 1, self.places - 1, -1):
                size = index_text(kernel.dims[d], scope.text)
                inner = [f"for (int64_t i{d} = 0; i{d} < {size}; ++i{d}) {{", *indent(inner), "}"]
            body += [f"int64_t at = (kept + k) * ({width});", *inner]
        else:
            body.append(f"{out}[kept + k] = {text};")
        simd = [] if kernel.trailing or checked else ["#pragma omp simd"]
        return [
            f"int32_t where[{BLOCK} + 1];",
            "int64_t count = 0;",
            f"for (int64_t l = 0; l < {name}_width; ++l) {{",
            "  where[count] = (int32_t)l;",
            "  count += keep[l];",
            "}",
            *simd,
            "for (int64_t k = 0; k < count; ++k) {",
            f"  const int64_t {name} = {name}_block + where[k];",
            *indent(body),
            "}",
            "kept += count;",
        ]

    def _count_segments(self, name: str) -> list[str]:
        assert self.segment is not None
        offsets = cname(self.segment.data)
        here = f"{name}_block + l"
        return [
            f"for (int64_t l = 0; l < {name}_width; ++l)",
            f"  kept += keep[l] ? {offsets}[{here} + 1] - {offsets}[{here}] : 0;",
        ]

    def _copy_segments(self, scope: Scope, name: str) -> list[str]:
        """Neighbouring segments that are kept are copied as one."""
        assert self.segment is not None
        offsets = cname(self.segment.data)
        scope.enter_elements()
        scope.count([self.value])
        text = store_text(self.kernel.buffer.dtype, scope.text(self.value), self.needs)
        checked = any("ks_wrap" in line for line in [*scope.lines[ELEMENT], text])
        merge = [] if name in self.value.names else [f"  while (l + 1 < {name}_width && keep[l + 1]) ++l;"]
        return [
            f"for (int64_t l = 0; l < {name}_width; ++l) {{",
            "  if (!keep[l]) continue;",
            f"  const int64_t {name} = {name}_block + l, begin = {offsets}[{name}];",
            *merge,
            f"  const int64_t end = {offsets}[{name}_block + l + 1];",
            *([] if checked else ["  #pragma omp simd"]),
            "  for (int64_t i0 = begin; i0 < end; ++i0) {",
            *indent(indent(scope.lines[ELEMENT])),
            f"    {cname(self.kernel.buffer.name)}_out[kept + i0 - begin] = {text};",
            "  }",
            "  kept += end - begin;",
            "}",
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


_SEGMENT_NAME = "i99"
_SEGMENT = Scalar("index", "int64", polys=(variable(_SEGMENT_NAME),))
"""The loop variable over segments, in place of the segment of a position."""
