"""Places generated C++ statements: each value is computed once, in the outermost loop that has its operands."""

import re
from collections import Counter

from ..ir.loops import buffers_read
from ..ir.printing import unused_name
from ..ir.scalar import Scalar, walk_all
from .text import Needs, constant, ctype, index_text, load_text, operation, quotient_text

FUNCTION, ROW, ELEMENT = 0, 1, 2
"""Levels: once a call, once for every outer point, at every point."""

_LANGUAGE = (
    "and or not xor bool float double int div exp log sin cos tan abs pow min max floor ceil round long short "
    "char auto new delete default switch case this class union register template operator struct static const "
    "void for while if else do return break continue goto signed unsigned public private protected virtual "
    "friend inline typedef typename using namespace try catch throw enum extern sizeof volatile mutable "
    "explicit export asm final override std main true false"
)
_OURS = (
    "bad chunk chunks starts kept total low high begin end first stop sum here keep where count left width tiles at "
    "p q x y"
)
_TAKEN = {*_LANGUAGE.split(), *_OURS.split()}
"""Names that generated functions cannot give to values: C++'s own, and those of their helper variables."""


class Scope:
    """Prints values as C++, adding statements to the lines of the level where they belong."""

    def __init__(self, needs: Needs, inner: set[str], outer: set[str], search: str) -> None:
        self.needs = needs
        self.inner = inner
        self.outer = outer
        self.search = search
        self.lines: list[list[str]] = [[], [], []]
        self.available: list[dict[str, str]] = [{}, {}, {}]
        self.results: dict[str, str] = {}
        self.uses: Counter[str] = Counter()
        self.taken: set[str] = set()
        self.buffers: dict[str, str] = {}
        self.inline = False
        self.chooses = False
        self.stages = 0

    def level(self, value: Scalar) -> int:
        """The outermost level at which ``value`` can be computed."""
        names = value.names
        if names & self.inner or (value.op == "quotient" and not all(self._is_outside(name) for name in names)):
            return ELEMENT
        if names & self.outer or any(name.startswith("@") for name in names):
            return ROW
        return FUNCTION

    def _is_outside(self, name: str) -> bool:
        return name in self.outer or name.startswith("@") or bool(re.fullmatch(r"[su]\d+", name))

    def count(self, roots: list[Scalar]) -> None:
        """Count uses, so that what is used once stays part of a larger expression."""
        self.uses = Counter()
        for node in _union(roots):
            for operand in node.operands():
                self.uses[operand.key] += 1
        for root in roots:
            self.uses[root.key] += 1
        self.chooses = any(node.op == "select" for node in walk_all(roots))

    def reserve(self, roots: list[Scalar]) -> None:
        """Keep the names of the buffers that are read free of values."""
        self.taken |= {cname(name) for name in buffers_read(roots)}

    def enter_elements(self) -> None:
        """Begin a new innermost loop body."""
        self.lines[ELEMENT] = []
        self.available[ELEMENT] = {}

    def text(self, value: Scalar) -> str:
        """C++ expression of ``value``; statements it needs have been added."""
        if value.op == "const":
            return constant(value.data, value.dtype)
        if value.op == "result":
            return self.results[value.data]
        if value.op == "index" and value.polys[0].is_name:
            return self._index(value)
        for names in self.available:
            if value.key in names:
                return names[value.key]
        expression = self._expression(value)
        level = self.level(value)
        if self.inline or (value.op == "quotient" and level == ELEMENT) or not self._deserves_name(value, level):
            return expression
        name = unused_name(cname(value.label[0] if value.label else "t"), self.taken)
        self.lines[level].append(f"const {ctype(value.dtype)} {name} = {_bare(expression)};")
        self.available[level][value.key] = name
        return name

    def _deserves_name(self, value: Scalar, level: int) -> bool:
        if level == ELEMENT:
            # A load inside a conditional expression would be conditional, and the loop no longer vectorised.
            always = value.op in ("search", "segment") or (value.op in ("load", "item") and self.chooses)
            return always or self.uses[value.key] > 1 or value.cost > 12
        return value.op not in ("const", "result", "cast") or self.uses[value.key] > 1

    def _expression(self, value: Scalar) -> str:
        if value.op == "index":
            return f"({self._index(value)})"
        if value.op == "quotient":
            return self._quotient(value)
        if value.op == "size":
            return self.needs.floats.setdefault(value.data, f"float{len(self.needs.floats)}")
        if value.op == "item":
            return f"{value.data}[{self._index(value)}]"
        if value.op == "load":
            buffer, dtype = cname(value.data[0]), value.data[1]
            return load_text(buffer, dtype, index_text(value.polys[0], self.text), self.needs)
        if value.op == "wrap":
            name = self.needs.helper("ks_wrap" if value.flag else "ks_wrap_none")
            return f"{name}({self.text(value.args[0])}, {index_text(value.polys[0], self.text)}, bad)"
        if value.op == "search":
            return self._search(value)
        if value.op == "segment":
            self.needs.helper("ks_segment")
            position, length = (index_text(p, self.text) for p in value.polys)
            return f"ks_segment({position}, {cname(value.data)}, {length})"
        if value.op == "piecewise":
            return self._piecewise(value)
        return operation(value, [self.text(arg) for arg in value.args], self.needs)

    def _index(self, value: Scalar) -> str:
        return index_text(value.polys[0], self.text)

    def _quotient(self, value: Scalar) -> str:
        """A quotient or remainder; by a size in floating point where it is computed for every element."""
        if self.level(value) != ELEMENT or not value.polys[1].names:
            return quotient_text(value, self.text)
        self.needs.helper("ks_quotient")
        name = "ks_quotient" if value.data == "/" else "ks_rest"
        return f"{name}({', '.join(index_text(part, self.text) for part in value.polys)})"

    def _piecewise(self, value: Scalar) -> str:
        """A choice by position that no loop was split for: only the taken side may be evaluated."""
        position = index_text(value.polys[0], self.text)
        outermost, self.inline = self.inline, True
        parts = [self.text(arg) for arg in value.args]
        bounds = [index_text(p, self.text) for p in value.polys[1:]]
        self.inline = outermost
        text = parts[-1]
        for bound, part in reversed(list(zip(bounds, parts[:-1], strict=True))):
            text = f"({position} < {bound} ? {part} : {text})"
        return text

    def _search(self, value: Scalar) -> str:
        """One element alone; loops that can look up many at once do so (:mod:`.lookup_blocks`)."""
        buffer = cname(value.data[0])
        key, row = self.text(value.args[0]), index_text(value.polys[0], self.text)
        length = index_text(value.polys[1], self.text)
        table = buffer if row == "0" else f"{buffer} + {row}"
        self.needs.lookups.add("binary")
        side = "true" if value.flag else "false"
        return f"ks_lookup_one<{side}, {ctype(value.args[0].dtype)}>({table}, {length}, {key})"


def cname(name: str) -> str:
    """A graph's name as a C++ identifier that is no keyword, loop variable or size."""
    clean = re.sub(r"\W", "_", name)
    return f"{clean}_" if clean in _TAKEN or re.fullmatch(r"[isuvjl]\d*", clean) else clean


def _union(roots: list[Scalar]) -> list[Scalar]:
    return list(walk_all(roots))


def _bare(text: str) -> str:
    """Without parentheses around the whole."""
    if not text.startswith("("):
        return text
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 else text
    return text
