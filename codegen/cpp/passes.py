"""The passes of a kernel as C++ loops: accumulators in lanes, loops split where a concatenation changes its source."""

from ..ir.build import is_float
from ..ir.loops import Accumulation, Kernel, Store
from ..ir.poly import ONE, Poly, variable
from ..ir.scalar import Scalar
from .choices import choice_along, choice_outside, chosen
from .lookup_blocks import BLOCK, Staged, stage
from .passes_types import Item, Range, indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .stream import TILE, copies, declarations, streamable, tile_name
from .text import Needs, constant, ctype, index_text, store_text

_START = {
    "sum": "0", "prod": "1", "max": None, "min": None, "any": "false", "all": "true", "argmax": None, "argmin": None,
}  # fmt: skip
_LIMITS = {"int64": "INT64", "int32": "INT32", "int16": "INT16", "int8": "INT8", "uint8": "UINT8"}


def start_value(a: Accumulation) -> str:
    """The neutral element of an accumulation."""
    plain = _START[a.op]
    if plain is not None:
        return plain
    low = a.op in ("max", "argmax")
    if is_float(a.dtype):
        return constant(float("-inf") if low else float("inf"), a.dtype)
    if a.dtype == "bool":
        return "false" if low else "true"
    if a.dtype == "uint8" and low:
        return "0"
    return f"{_LIMITS[a.dtype]}_{'MIN' if low else 'MAX'}"


def combine_text(a: Accumulation, new: str, old: str, needs: Needs) -> str:
    """The accumulated value with one more in it."""
    match a.op:
        case "sum":
            return f"{old} + {new}"
        case "prod":
            return f"{old} * {new}"
        case "any":
            return f"{old} | {new}"
        case "all":
            return f"{old} & {new}"
    return f"{needs.helper('ks_nan_max' if 'max' in a.op else 'ks_nan_min')}<{ctype(a.dtype)}>({new}, {old})"


def fold_text(lanes: str, kind: str, combine: str, needs: Needs) -> str:
    """What is in all lanes together."""
    return f"{needs.helper('ks_fold')}({lanes}, []({kind} x, {kind} y) -> {kind} {{ return {combine}; }})"


CASCADE = 64
"""Numbers that a lane adds in float32 before all lanes go into a sum in double: of more, those that are alike add up
errors to a thousandth of a variance, where PyTorch, which adds pairwise, is a hundred times as exact."""


class PassWriter:
    """Writes the innermost loops of one pass into ``lines``."""

    def __init__(self, scope: Scope, lanes: int, acc_type: dict[str, str]) -> None:
        self.scope = scope
        self.lanes = lanes
        self.acc_type = acc_type
        self.splits = 0
        self.prefetch = 0
        self.stream = False
        self._streamed: set[str] = set()
        self.summed = ""
        """The variable that counts what was added since sums went into double; empty where rows are short."""

    def cascades(self, a: Accumulation) -> bool:
        """Whether an accumulation goes into a sum in double now and then."""
        return bool(self.summed) and a.op == "sum" and self.acc_type[a.name] == "float"

    def loops(self, items: list[Item], loop: Range) -> list[str]:
        """Loops over ``loop`` that do all ``items``; one for each part of a concatenation along the variable."""
        piece = choice_along(items, loop.variable)
        if piece is None:
            outer = choice_outside(items, self.scope.inner)
            return self._choose(items, outer, loop) if outer is not None else self._loop(items, loop)
        position, *bounds = piece.polys
        rest = position.substitute({loop.variable: Poly(())})
        lines, low = [], loop.low
        ends = []
        for bound in bounds:
            self.splits += 1
            name = f"split{self.splits}"
            text = index_text(bound - rest, self.scope.text)
            lines.append(f"const int64_t {name} = ks_clip({text}, {low}, {loop.high});")
            ends.append(name)
            low = name
        low = loop.low
        for part, high in enumerate([*ends, loop.high]):
            lines += self.loops(chosen(items, piece, part), Range(loop.variable, low, high))
            low = high
        return lines

    def _choose(self, items: list[Item], piece: Scalar, loop: Range) -> list[str]:
        """The source depends on the row only: one of several loops."""
        lines: list[str] = []
        position = index_text(piece.polys[0], self.scope.text)
        for part in range(len(piece.args)):
            # What only this part reads must not be read for the other rows: its row values stay inside.
            outside = self.scope.lines[ROW], dict(self.scope.available[ROW])
            self.scope.lines[ROW] = []
            body = self.loops(chosen(items, piece, part), loop)
            body = self.scope.lines[ROW] + body
            self.scope.lines[ROW], self.scope.available[ROW] = outside
            bound = index_text(piece.polys[1 + part], self.scope.text) if part + 1 < len(piece.args) else ""
            head = f"if ({position} < {bound}) {{" if bound else "{"
            lines.append(head if part == 0 else f"}} else {head}")
            lines += indent(body)
        return [*lines, "}"]

    def _loop(self, items: list[Item], loop: Range) -> list[str]:
        if any(item.accumulation for item in items):
            return self._lane_loop(items, loop)
        staged = stage(items, loop, self.scope, self.scope.search)
        if staged is not None:
            return self._staged_loop(staged, loop)
        stores = streamable(items, loop.variable) if self.stream else []
        if stores:
            return self._streamed_loop(items, stores, loop)
        body = self._body(items, loop, "")
        head = f"for (int64_t {loop.variable} = {loop.low}; {loop.variable} < {loop.high}; ++{loop.variable}) {{"
        return [*_simd(items), head, *indent(body), "}"]

    def _streamed_loop(self, items: list[Item], stores: list[Store], loop: Range) -> list[str]:
        """Blocks of elements: computed into tiles, which are then streamed to memory."""
        name = loop.variable
        return [
            f"for (int64_t {name}_block = {loop.low}; {name}_block < {loop.high}; {name}_block += {TILE}) {{",
            f"  const int64_t {name}_width = ks_min<int64_t>({TILE}, {loop.high} - {name}_block);",
            *indent(self._block_loop(items, stores, loop, TILE)),
            "}",
        ]

    def _block_loop(self, items: list[Item], stores: list[Store], loop: Range, size: int) -> list[str]:
        """One block, by way of tiles for ``stores``."""
        name = loop.variable
        self._streamed = {store.buffer.name for store in stores}
        body = self._body(items, loop, "")
        self._streamed = set()
        return [
            *declarations(stores, size),
            *_simd(items),
            f"for (int64_t {name} = {name}_block; {name} < {name}_block + {name}_width; ++{name}) {{",
            *indent(body),
            "}",
            *copies(stores, loop, self.scope),
        ]

    def _staged_loop(self, staged: Staged, loop: Range) -> list[str]:
        """Blocks of elements: first their searches, then the rest."""
        name = loop.variable
        rest: list[str] = []
        if staged.items:
            stores = streamable(staged.items, name) if self.stream else []
            rest = self._block_loop(staged.items, stores, loop, BLOCK)
        return [
            f"for (int64_t {name}_block = {loop.low}; {name}_block < {loop.high}; {name}_block += {BLOCK}) {{",
            f"  const int64_t {name}_width = ks_min<int64_t>({BLOCK}, {loop.high} - {name}_block);",
            *indent([*staged.lines, *rest]),
            "}",
        ]

    def _lane_loop(self, items: list[Item], loop: Range) -> list[str]:
        """Full blocks of ``lanes`` elements, whose accumulators stay in registers, then the rest."""
        name, low, high, lanes = loop.variable, loop.low, loop.high, self.lanes
        body = self._body(items, loop, "l")
        first = f"const int64_t {name} = {name}_block + l;"
        accumulations = [item.accumulation for item in items if item.accumulation is not None]
        sums = [cname(a.name) for a in accumulations if self.cascades(a)]
        full = [
            f"for (; {name}_block + {lanes} <= {f'{name}_part' if sums else high}; {name}_block += {lanes}) {{",
            *indent(self._prefetch(items, name)),
            *indent(_simd(items)),
            f"  for (int l = 0; l < {lanes}; ++l) {{",
            f"    {first}",
            *indent(indent(body)),
            "  }",
            "}",
        ]
        return [
            "{",
            f"  int64_t {name}_block = {low};",
            *indent(self._cascading(sums, name, high, full) if sums else full),
            *indent(_simd(items)),
            f"  for (int l = 0; l < int({high} - {name}_block); ++l) {{",
            f"    {first}",
            *indent(indent(body)),
            "  }",
            "}",
        ]

    def _cascading(self, sums: list[str], name: str, high: str, full: list[str]) -> list[str]:
        """The loop ``full`` in parts, after each of which enough was added to go into sums in double."""
        most = CASCADE * self.lanes
        return [
            "do {",
            f"  const int64_t {name}_begin = {name}_block;",
            f"  const int64_t {name}_part = ks_min<int64_t>({high}, {name}_block + {most});",
            *indent(full),
            f"  {self.summed} += {name}_block - {name}_begin;",
            f"  if ({self.summed} >= {most}) {{",
            f"    {self.summed} = 0;",
            *(f"    {sum_}_sum += {self._folded(sum_)};" for sum_ in sums),
            *(f"    for (int l = 0; l < {self.lanes}; ++l) {sum_}_acc[l] = 0;" for sum_ in sums),
            "  }",
            f"}} while ({name}_block + {self.lanes} <= {high});",
        ]

    def _folded(self, name: str) -> str:
        return fold_text(f"{name}_acc", "float", "x + y", self.scope.needs)

    def _prefetch(self, items: list[Item], name: str) -> list[str]:
        if not self.prefetch:
            return []
        offsets = {}
        for item in items:
            for node in item.value.walk():
                if node.op == "load" and node.polys[0].coefficient(name) == ONE:
                    offsets[node.data[0]] = node.polys[0]
        ahead = {name: variable(f"{name}_block") + self.prefetch}
        return [
            f"__builtin_prefetch(&{cname(buffer)}[{index_text(offset.substitute(ahead), self.scope.text)}]);"
            for buffer, offset in offsets.items()
        ]

    def _body(self, items: list[Item], loop: Range, lane: str) -> list[str]:
        self.scope.enter_elements()
        self.scope.count([item.value for item in items])
        lines = self.scope.lines[ELEMENT]
        for item in items:
            text = self.scope.text(item.value)
            if item.keep:
                element = f"{item.keep}[{loop.variable}]"
                lines.append(f"{element} = {text};")
                self.scope.available[ELEMENT].setdefault(item.value.key, element)
            elif item.accumulation is not None:
                lines += self._accumulate(item.accumulation, text, lane, loop.variable)
            elif item.store is not None:
                lines.append(self._store(item.store, text, loop))
        return lines

    def _store(self, store: Store, text: str, loop: Range) -> str:
        if store.buffer.name not in self._streamed:
            return store_line(store, text, self.scope)
        value = store_text(store.buffer.dtype, text, self.scope.needs)
        return f"{tile_name(store)}[{loop.variable} - {loop.variable}_block] = {value};"

    def _accumulate(self, a: Accumulation, text: str, lane: str, variable: str) -> list[str]:
        place = f"{cname(a.name)}_acc[{lane}]"
        if a.op in ("argmax", "argmin"):
            better = f"{cname(a.name)}_better"
            sign = ">" if a.op == "argmax" else "<"
            value = f"{cname(a.name)}_new"
            return [
                f"const {ctype(a.dtype)} {value} = {text};",
                f"const bool {better} = ({value} {sign} {place}) | (({value} != {value}) & ({place} == {place}));",
                f"{place} = {better} ? {value} : {place};",
                f"{cname(a.name)}_at[{lane}] = {better} ? {variable} : {cname(a.name)}_at[{lane}];",
            ]
        wide = self.acc_type[a.name]
        new = f"({wide})({text})" if wide != ctype(a.dtype) else text
        return [f"{place} = {combine_text(a, new, place, self.scope.needs)};"]


def store_line(store: Store, text: str, scope: Scope) -> str:
    """Write a value to its buffer."""
    offset = index_text(store.offset, scope.text)
    return f"{cname(store.buffer.name)}_out[{offset}] = {store_text(store.buffer.dtype, text, scope.needs)};"


def after_all_rows(kernel: Kernel, full: list[Accumulation], outer: Scope) -> list[str]:
    """Writes what is computed from the results of all rows, after the loops, whose names it leaves alone."""
    scope = Scope(outer.needs, set(), set(), outer.search)
    scope.results = {a.name: cname(a.name) for a in full}
    scope.taken = outer.taken | set(scope.results.values())
    stores = [s for s in kernel.stores.values() if s.level == "full"]
    scope.count([s.value for s in stores])
    writes = [store_line(s, scope.text(s.value), scope) for s in stores]
    return [*scope.lines[FUNCTION], *scope.lines[ROW], *writes]


def _simd(items: list[Item]) -> list[str]:
    checked = any(node.op == "wrap" for item in items for node in item.value.walk())
    return ["#pragma omp simd reduction(|:bad)" if checked else "#pragma omp simd"]
