"""Attention of few queries in C++, as of a decoder's next token: the keys are shared out, and every row is read once.

A task takes one query and a chunk of keys and leaves its sum, its largest score and its weights' total; the sums of all
chunks are put together at the end.
"""

from collections.abc import Callable

from ..ir.poly import variable
from ..ir.scalar import Scalar, rewrite
from ..lowering.views import linear
from .attention import Attention, simd_loop
from .parallel import checking, nest, team
from .passes_types import indent
from .scope import ELEMENT, FUNCTION, ROW, cname
from .text import index_text, store_text

CHUNK = 128
"""Keys of a task."""
LANES = 16
"""Sums of a product of two rows."""
_ROWS = (4, 1)
"""Rows that are read at once: a row of one cache line follows the other, and their sums do not wait for each other."""


class FewQueries(Attention):
    """Statements of the C++ function."""

    score = "ks_scores[j]"

    def lines(self) -> list[str]:
        """The whole function body."""
        kernel, scope = self.kernel, self.scope
        scope.inner.discard(self.query)
        scope.outer.add(self.query)
        *outer, keys = (index_text(size, scope.text) for size in kernel.dims)
        row = index_text(linear(kernel.variables[:-1], kernel.dims[:-1]), scope.text)
        task = self._task(row)
        loops = [("ks_chunk", "ks_chunks"), *zip([*self.batch, self.query], outer, strict=True)]
        body = nest(loops, [*scope.lines[ROW], *task])
        stored = store_text(kernel.buffer.dtype, "sum", self.needs)
        nothing = "total == 0 ? 0 : " if kernel.is_zero_without_keys else ""
        merged = [line.replace("EXP", self.exp) for line in _MERGED]
        return [
            "int64_t bad = 0;",
            *scope.lines[FUNCTION],
            *self._widths(),
            f"const int64_t ks_keys = {keys}, ks_chunks = (ks_keys + {CHUNK - 1}) / {CHUNK};",
            f"const int64_t ks_rows = {' * '.join(outer)}, ks_part = ks_out_width + 2;",
            "ks_array<float> ks_parts(ks_rows * ks_chunks * ks_part);",
            f"#pragma omp parallel {team('ks_rows * ks_keys * ks_width', self.settings, body)}",
            "{",
            f"  ks_array<float> ks_memory(ks_width + ks_out_width + {CHUNK});",
            "  float *ks_query = ks_memory.data, *ks_sums = ks_query + ks_width, *ks_scores = ks_sums + ks_out_width;",
            f"  #pragma omp for collapse({len(loops)}) schedule({'static' if self.unseen is None else 'dynamic'})",
            *indent(body),
            "  #pragma omp for",
            "  for (int64_t ks_row = 0; ks_row < ks_rows; ++ks_row) {",
            *indent(indent(merged)),
            f"    auto* ks_to = {cname(kernel.buffer.name)}_out + ks_row * ks_out_width;",
            "    for (int64_t d = 0; d < ks_out_width; ++d) {",
            f"      const float sum = {nothing}ks_sums[d] / total;",
            f"      ks_to[d] = {stored};",
            "    }",
            "  }",
            "}",
            "return bad;",
        ]

    def _task(self, row: str) -> list[str]:
        """One query and a chunk of keys."""
        kernel = self.kernel
        at_key = f"const int64_t {self.key} = left + j;"
        keys = "for (int64_t j = 0; j < ks_seen; ++j) {"
        query = self._filled(f"ks_query[{self.place}]", kernel.query)
        score = self._filled("ks_scores[j]", kernel.value)
        return [
            f"const int64_t left = ks_chunk * {CHUNK}, ks_seen = ks_min<int64_t>({CHUNK}, ks_keys - left);",
            f"float* const ks_sum = ks_parts.data + (({row}) * ks_chunks + ks_chunk) * ks_part;",
            "std::memset(ks_sum, 0, ks_part * sizeof(float));",
            "float ks_top = -INFINITY, total = 0;",
            *self._skip_chunk(keys, at_key),
            *simd_loop(self._wide_loops()[0], query),
            *self._by_rows(at_key, self._dots),
            *simd_loop(keys, [at_key, *score]),
            *(line.replace("EXP", self.exp) for line in _SOFTMAX),
            *self._by_rows(at_key, self._weighted),
            "ks_sum[ks_out_width] = ks_top;",
            "ks_sum[ks_out_width + 1] = total;",
        ]

    def _by_rows(self, at_key: str, body: Callable[[int], list[str]]) -> list[str]:
        """Loops over the keys of a chunk, several rows at once as long as there are as many."""
        loops = (f"for (; j + {rows} <= ks_seen; j += {rows}) {{" for rows in _ROWS)
        inside = [[loop, *indent([at_key, *body(rows)]), "}"] for loop, rows in zip(loops, _ROWS, strict=True)]
        return ["{", *indent(["int64_t j = 0;", *(line for lines in inside for line in lines)]), "}"]

    def _elements(self, value: Scalar, rows: int) -> list[str]:
        """Texts of an element of each of so many rows, behind the statements that they need."""
        values = [rewrite(value, lambda node: None, {self.key: variable(self.key) + n}) for n in range(rows)]
        self.scope.enter_elements()
        self.scope.count(values)
        return [self.scope.text(element) for element in values]

    def _dots(self, rows: int) -> list[str]:
        """The products of the query and so many keys, in lanes that are added at the end."""
        texts = self._elements(self.kernel.key, rows)
        place, fold = self.place, self.needs.helper("ks_fold")
        body = [*self.scope.lines[ELEMENT], *(f"ks_dot{n}[l] += ks_query[{place}] * {t};" for n, t in enumerate(texts))]
        block = f"for (; ks_block + {LANES} <= ks_width; ks_block += {LANES}) {{"
        return [
            *(f"float ks_dot{n}[{LANES}] = {{0}};" for n in range(rows)),
            "int64_t ks_block = 0;",
            block,
            *indent(
                simd_loop(f"for (int l = 0; l < {LANES}; ++l) {{", [f"const int64_t {place} = ks_block + l;", *body])
            ),
            "}",
            *simd_loop(
                "for (int l = 0; l < int(ks_width - ks_block); ++l) {",
                [f"const int64_t {place} = ks_block + l;", *body],
            ),
            *(
                f"ks_scores[j + {n}] = {fold}(ks_dot{n}, [](float x, float y) -> float {{ return x + y; }});"
                for n in range(rows)
            ),
        ]

    def _weighted(self, rows: int) -> list[str]:
        """Adds so many rows of values, each with its weight."""
        texts = self._elements(self.kernel.values, rows)
        added = " + ".join(f"ks_weight{n} * {text}" for n, text in enumerate(texts))
        return [
            *(f"const float ks_weight{n} = ks_scores[j + {n}];" for n in range(rows)),
            *simd_loop(self._wide_loops()[1], [*self.scope.lines[ELEMENT], f"ks_sum[{self.place}] += {added};"]),
        ]

    def _skip_chunk(self, keys: str, at_key: str) -> list[str]:
        """Goes on with the next chunk where the query may see no key of this one."""
        if self.unseen is None:
            return []
        self.scope.enter_elements()
        self.scope.count([self.unseen])
        text = self.scope.text(self.unseen)
        body = [at_key, *self.scope.lines[ELEMENT], f"ks_some |= !{text};"]
        return [
            "int32_t ks_some = 0;",
            f"#pragma omp simd {' '.join(['reduction(|:ks_some)', *checking(body)])}",
            keys,
            *indent(body),
            "}",
            "if (!ks_some) {",
            "  ks_sum[ks_out_width] = -INFINITY;",
            "  continue;",
            "}",
        ]


_SOFTMAX = """\
#pragma omp simd reduction(max:ks_top)
for (int64_t j = 0; j < ks_seen; ++j) ks_top = ks_scores[j] > ks_top ? ks_scores[j] : ks_top;
const float ks_shift = ks_top == -INFINITY ? 0.0f : ks_top;
#pragma omp simd reduction(+:total)
for (int64_t j = 0; j < ks_seen; ++j) {
  ks_scores[j] = EXP(ks_scores[j] - ks_shift);
  total += ks_scores[j];
}
""".splitlines()

_MERGED = """\
const float* ks_sum = ks_parts.data + ks_row * ks_chunks * ks_part;
float ks_top = -INFINITY, total = 0;
for (int64_t c = 0; c < ks_chunks; ++c) {
  const float ks_other = ks_sum[c * ks_part + ks_out_width];
  ks_top = ks_other > ks_top ? ks_other : ks_top;
}
const float ks_shift = ks_top == -INFINITY ? 0.0f : ks_top;
std::memset(ks_sums, 0, ks_out_width * sizeof(float));
for (int64_t c = 0; c < ks_chunks; ++c, ks_sum += ks_part) {
  const float ks_weight = EXP(ks_sum[ks_out_width] - ks_shift);
  total += ks_weight * ks_sum[ks_out_width + 1];
  #pragma omp simd
  for (int64_t d = 0; d < ks_out_width; ++d) ks_sums[d] += ks_weight * ks_sum[d];
}
""".splitlines()
