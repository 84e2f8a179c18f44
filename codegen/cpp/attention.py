"""Attention as a C++ kernel: tiles of keys with a running softmax; tiles that the mask hides cost one test.

A tile's scores and results have queries side by side, so that all of the softmax runs along vectors, and keys and
values stay in their order.
"""

from ..ir.build import apply, const
from ..ir.loops import AttentionKernel
from ..ir.poly import ZERO, product
from ..ir.scalar import Scalar
from ..ir.tunables import Settings
from ..lowering.views import linear
from .parallel import nest, simd, team
from .passes_types import indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import Needs, index_text, store_text

TILE = 64
"""Queries of a tile, and keys."""


def unseen(score: Scalar) -> Scalar | None:
    """The condition under which ``score`` is minus infinity whatever the product is; None: never."""
    if score.op == "const":
        return const(True, "bool") if score.data == float("-inf") else None
    if score.op == "load":
        return apply("eq", "bool", score, const(float("-inf"), score.dtype))
    if score.op == "cast":
        return unseen(score.args[0])
    if score.op == "add":
        conditions = [condition for condition in map(unseen, score.args) if condition is not None]
        return _either(conditions)
    if score.op == "select" and not any(name.startswith("@") for name in score.args[0].names):
        here, left, right = score.args[0], unseen(score.args[1]), unseen(score.args[2])
        parts = [] if left is None else [_both(here, left)]
        parts += [] if right is None else [_both(apply("not", "bool", here), right)]
        return _either(parts)
    return None


def _both(a: Scalar, b: Scalar) -> Scalar:
    return a if b.op == "const" else apply("and", "bool", a, b)


def _either(conditions: list[Scalar]) -> Scalar | None:
    if not conditions:
        return None
    first, *others = conditions
    for other in others:
        first = apply("or", "bool", first, other)
    return first


class Attention:
    """Statements of the C++ function for attention: tiles of queries and keys."""

    score = "ks_scores[j * 64 + i]"
    """Where the product of a query and a key is."""

    def __init__(self, kernel: AttentionKernel, settings: Settings, needs: Needs) -> None:
        self.kernel = kernel
        self.settings = settings
        self.needs = needs
        names = [f"i{d}" for d in range(len(kernel.dims) + 1)]
        *self.batch, self.query, self.key, self.place = names
        self.scope = Scope(needs, {self.query, self.key, self.place}, set(self.batch), settings.search)
        self.unseen = unseen(kernel.value)
        roots = [*kernel.roots(), *([self.unseen] if self.unseen is not None else [])]
        self.scope.reserve(roots)
        self.scope.taken |= {cname(kernel.buffer.name)}
        (dot,) = {name for name in kernel.value.names if name.startswith("@")}
        self.scope.results[dot[1:]] = self.score
        self.scope.inner |= {dot}
        self.exp = needs.function("exp")

    def lines(self) -> list[str]:
        """The whole function body."""
        kernel, scope = self.kernel, self.scope
        *batch, queries, keys = (index_text(size, scope.text) for size in kernel.dims)
        tile = self._tile()
        loops = [*zip(self.batch, batch, strict=True), ("ks_tile", "tiles")]
        body = nest(loops, [*scope.lines[ROW], *tile])
        work = index_text(product(kernel.dims), scope.text)
        self.needs.helper("ks_tile_product")
        return [
            "int64_t bad = 0;",
            *scope.lines[FUNCTION],
            *self._widths(),
            f"const int64_t ks_queries = {queries}, ks_keys = {keys}, tiles = (ks_queries + {TILE - 1}) / {TILE};",
            f"#pragma omp parallel {team(work, self.settings, body)}",
            "{",
            *indent(
                [
                    f"const int64_t ks_row = 2 * ks_width + 2 * ks_out_width + {TILE} + 4;",
                    f"ks_array<float> ks_memory({TILE} * ks_row);",
                    f"float *ks_turned = ks_memory.data, *ks_key_rows = ks_turned + {TILE} * ks_width;",
                    f"float *ks_value_rows = ks_key_rows + {TILE} * ks_width;",
                    f"float *ks_sums = ks_value_rows + {TILE} * ks_out_width;",
                    f"float *ks_scores = ks_sums + {TILE} * ks_out_width, *ks_top = ks_scores + {TILE * TILE};",
                    f"float *total = ks_top + {TILE}, *ks_shrink = total + {TILE}, *ks_base = ks_shrink + {TILE};",
                    f"#pragma omp for collapse({len(loops)}) schedule(dynamic)",
                    *body,
                ]
            ),
            "}",
            "return bad;",
        ]

    def _widths(self) -> list[str]:
        sizes = {"ks_width": self.kernel.width, "ks_out_width": self.kernel.out}
        return [f"const int64_t {name} = {index_text(size, self.scope.text)};" for name, size in sizes.items()]

    def _wide_loops(self) -> list[str]:
        """Heads of the loops along a row of queries or keys, and of values."""
        names = ("ks_width", "ks_out_width")
        return [f"for (int64_t {self.place} = 0; {self.place} < {size}; ++{self.place}) {{" for size in names]

    def _tile(self) -> list[str]:
        """A tile of queries: its keys one tile after the other, then its results."""
        kernel = self.kernel
        at_row = f"const int64_t {self.key} = left + j;"
        at_query = f"const int64_t {self.query} = first + i;"
        wide, out_wide = self._wide_loops()
        query = self._filled(f"ks_turned[{self.place} * 64 + i]", kernel.query)
        key = self._filled(f"ks_key_rows[j * ks_width + {self.place}]", kernel.key)
        value = self._filled(f"ks_value_rows[j * ks_out_width + {self.place}]", kernel.values)
        score = self._filled("ks_scores[j * 64 + i]", kernel.value)
        lines = [
            f"const int64_t first = ks_tile * {TILE}, ks_count = ks_min<int64_t>({TILE}, ks_queries - first);",
            "std::memset(ks_turned, 0, 64 * ks_width * sizeof(float));",
            "std::memset(ks_sums, 0, 64 * ks_out_width * sizeof(float));",
            "for (int i = 0; i < 64; ++i) { ks_top[i] = -INFINITY; total[i] = 0; }",
            *_loop("for (int64_t i = 0; i < ks_count; ++i) {", [at_query, *simd_loop(wide, query)]),
            f"for (int64_t left = 0; left < ks_keys; left += {TILE}) {{",
            f"  const int64_t ks_seen = ks_min<int64_t>({TILE}, ks_keys - left);",
            *indent(self._skip(at_row, at_query)),
            *indent(_loop("for (int64_t j = 0; j < ks_seen; ++j) {", [at_row, *simd_loop(wide, key)])),
            *indent(_loop("for (int64_t j = 0; j < ks_seen; ++j) {", [at_row, *simd_loop(out_wide, value)])),
            "  ks_tile_product(ks_key_rows, ks_width, 1, ks_turned, ks_scores, ks_seen, ks_width, false);",
            *indent(
                _loop(
                    "for (int64_t j = 0; j < ks_seen; ++j) {",
                    [at_row, *simd_loop("for (int64_t i = 0; i < ks_count; ++i) {", [at_query, *score])],
                )
            ),
            *(line.replace("EXP", self.exp) for line in _SOFTMAX),
            "  ks_tile_product(ks_value_rows, 1, ks_out_width, ks_scores, ks_sums, ks_out_width, ks_seen, true);",
            "}",
        ]
        stored = store_text(kernel.buffer.dtype, "sum", self.needs)
        batch = kernel.variables[: len(self.batch)]
        row = index_text(linear((*batch, ZERO), (*kernel.dims[:-2], kernel.dims[-2])), self.scope.text)
        nothing = "total[i] == 0 ? 0 : " if kernel.is_zero_without_keys else ""
        return [
            *lines,
            "for (int64_t i = 0; i < ks_count; ++i) {",
            f"  auto* ks_to = {cname(kernel.buffer.name)}_out + ({row} + first + i) * ks_out_width;",
            "  for (int64_t d = 0; d < ks_out_width; ++d) {",
            f"    const float sum = {nothing}ks_sums[d * 64 + i] / total[i];",
            f"    ks_to[d] = {stored};",
            "  }",
            "}",
        ]

    def _filled(self, place: str, value: Scalar) -> list[str]:
        self.scope.enter_elements()
        self.scope.count([value])
        text = self.scope.text(value)
        return [*self.scope.lines[ELEMENT], f"{place} = {text};"]

    def _skip(self, at_row: str, at_query: str) -> list[str]:
        """Goes on with the next tile where no query of this one may see any key of it."""
        if self.unseen is None:
            return []
        self.scope.enter_elements()
        self.scope.count([self.unseen])
        text = self.scope.text(self.unseen)
        over_keys = ("for (int64_t j = 0; j < ks_seen; ++j) {", at_row)
        over_queries = ("for (int64_t i = 0; i < ks_count; ++i) {", at_query)
        is_read = any(node.op == "load" for node in self.unseen.walk())
        # A mask in memory is read along its rows.
        (outer, first), (inner, second) = (over_queries, over_keys) if is_read else (over_keys, over_queries)
        body = [second, *self.scope.lines[ELEMENT], f"ks_some |= !{text};"]
        checked = ", bad" if any("ks_wrap" in line for line in body) else ""
        inside = [first, f"#pragma omp simd reduction(|:ks_some{checked})", *_loop(inner, body)]
        return [
            "int32_t ks_some = 0;",
            *_loop(outer.replace("; ++", " && !ks_some; ++"), inside),
            "if (!ks_some) continue;",
        ]


_SOFTMAX = """\
  for (int i = 0; i < 64; ++i) ks_base[i] = ks_top[i];
  for (int64_t j = 0; j < ks_seen; ++j)
    #pragma omp simd
    for (int i = 0; i < 64; ++i) ks_base[i] = ks_scores[j * 64 + i] > ks_base[i] ? ks_scores[j * 64 + i] : ks_base[i];
  #pragma omp simd
  for (int i = 0; i < 64; ++i) {
    const float shift = ks_base[i] == -INFINITY ? 0.0f : ks_base[i];
    ks_shrink[i] = EXP(ks_top[i] - shift);
    ks_top[i] = ks_base[i];
    ks_base[i] = shift;
    total[i] *= ks_shrink[i];
  }
  for (int64_t j = 0; j < ks_seen; ++j)
    #pragma omp simd
    for (int i = 0; i < 64; ++i) {
      const float weight = EXP(ks_scores[j * 64 + i] - ks_base[i]);
      ks_scores[j * 64 + i] = weight;
      total[i] += weight;
    }
  for (int64_t d = 0; d < ks_out_width; ++d)
    for (int i = 0; i < 64; ++i) ks_sums[d * 64 + i] *= ks_shrink[i];
""".splitlines()


def _loop(head: str, body: list[str]) -> list[str]:
    return [head, *indent(body), "}"]


def simd_loop(head: str, body: list[str]) -> list[str]:
    """A loop over the lines as vectors."""
    return [simd(body), *_loop(head, body)]
