"""Names index and size expressions that occur more than once in a generated function.

Generated statements spell every size and index out. :func:`name_repeated` finds what occurs more than once, by value
numbering over the function's syntax tree, and computes it once, in front of the first statement that needs it.
"""

import ast
import re
from collections.abc import Iterator

from ...hardware.sources.parsing import parse
from .value_numbering import ATOM, COMPARISON, NEGATION, Groups, Numbering, Path, Place, Value, may_skip

_LEAST = 8
"""Characters that a name must save."""
_NAME_LENGTH = 3

_Edit = tuple[int, int, str]
"""Where text is replaced, from one place to another, and what by."""


def name_repeated(function: str, sizes_only: bool = False) -> str:
    """The function with what it repeats computed once.

    Args:
        function: text of one function, a kernel or one of the host's, or of several.
        sizes_only: name expressions over size symbols alone, as in the host's functions, whose other names may be
            tensors; else also those over a kernel's indices.
    """
    groups = Groups(function)
    source, edits = _Source(groups.text), list[_Edit]()
    for definition in parse(groups.text).body:
        if isinstance(definition, ast.FunctionDef):
            numbering = Numbering(sizes_only, groups)
            numbering.function(definition)
            edits += _Rewriting(source, groups, numbering).edits()
    return groups.expanded(source.edited(edits))


def name_repeated_lines(lines: list[str]) -> list[str]:
    """The body of one of the host's functions, likewise."""
    text = "\n".join(["def body():", *(f"    {line}" for line in lines)])
    return [line[4:] for line in name_repeated(text, sizes_only=True).split("\n")[1:]]


class _Source:
    """A text, edited by the syntax tree's places: these count bytes."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()
        self.starts = [0]
        """Of its lines."""
        for line in self.text.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def edited(self, edits: list[_Edit]) -> str:
        """The text after edits that do not overlap."""
        parts, end = [], 0
        for begin, stop, text in sorted(edits, key=lambda edit: edit[:2]):
            parts += [self.text[end:begin], text.encode()]
            end = stop
        return b"".join([*parts, self.text[end:]]).decode()

    def extent(self, node: ast.expr) -> tuple[int, int]:
        """Where an expression begins and ends, with the parentheses that a name in its place does not need."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        text = self.text
        while text[begin - 1 : begin] == b"(" and text[end : end + 1] == b")" and not self._calls(begin - 1):
            begin, end = begin - 1, end + 1
        return begin, end

    def _calls(self, parenthesis: int) -> bool:
        before = self.text[parenthesis - 1 : parenthesis]
        return before.isalnum() or before in (b"_", b")", b"]")


class _Rewriting:
    """Names for a function's values, and where they go."""

    def __init__(self, source: _Source, groups: Groups, numbering: Numbering) -> None:
        self.source = source
        self.groups = groups
        self.values = numbering.values
        self.roots = numbering.roots
        self.sizes_only = numbering.sizes_only

    def edits(self) -> list[_Edit]:
        """What is to be written in which places."""
        definitions = self._definitions()
        return definitions and [*definitions, *(edit for place in self.roots for edit in self._replaced(place))]

    def _definitions(self) -> list[_Edit]:
        """Statements that define names, by where they stand."""
        taken = set(re.findall(rb"\bn\d+\b", self.source.text))
        names = (f"n{number}" for number in range(1 << 30) if f"n{number}".encode() not in taken)
        lengths: list[int] = []
        statements: dict[int, list[str]] = {}
        for value in self.values:
            lengths.append(self._length(value, lengths))
            if not self._is_worth(value, lengths[-1]):
                continue
            text = self._spelled(value)
            value.name = next(names)
            lengths[-1] = _NAME_LENGTH
            block, place = self._path(value)[-1]
            begin = self.source.starts[block.statements[place].lineno - 1]
            mark = ": tl.constexpr" if value.compiled and not self.sizes_only else ""
            indent = " " * block.statements[place].col_offset
            statements.setdefault(begin, []).append(f"{indent}{value.name}{mark} = {text}\n")
        return [(begin, begin, "".join(lines)) for begin, lines in statements.items()]

    def _path(self, value: Value) -> Path:
        """Where the name is defined: a constant of a kernel in no loop, where it would be defined again."""
        return value.path[:1] if value.compiled and not self.sizes_only else value.path

    def _length(self, value: Value, lengths: list[int]) -> int:
        """Characters of an expression, where values that have names are these."""
        if not value.operands:
            return len(value.text)
        return sum(lengths[operand] for operand in value.operands) + len(value.op) + 2

    def _is_worth(self, value: Value, length: int) -> bool:
        if value.uses < 2 or not value.operands or value.constant:
            return False
        path = self._path(value)
        if value.risky and (not value.unconditional or may_skip(value, value.path[len(path) :])):
            return False
        return (value.uses - 1) * (length - _NAME_LENGTH) >= _LEAST

    def _spelled(self, value: Value) -> str:
        operands = [self.values[operand] for operand in value.operands]
        if value.binding == ATOM:
            return f"{value.op[:-1]}{', '.join(map(self._text, operands))})"
        if value.op == "neg":
            return f"-{self._within(operands[0], NEGATION + 1)}"
        left, right = operands
        # Comparisons do not chain, and what is on the right is computed first only in parentheses.
        least = value.binding + (value.binding == COMPARISON)
        return f"{self._within(left, least)} {value.op} {self._within(right, value.binding + 1)}"

    def _text(self, value: Value) -> str:
        return value.name or value.text or self._spelled(value)

    def _within(self, value: Value, binding: int) -> str:
        own = ATOM if value.name else value.binding
        return self._text(value) if own >= binding else f"({self._text(value)})"

    def _replaced(self, place: Place) -> Iterator[_Edit]:
        value = self.values[place.number]
        if not value.name:
            for inner in place.inner:
                yield from self._replaced(inner)
        node = place.node
        is_group = isinstance(node, ast.Name) and node.id in self.groups.texts and bool(value.operands)
        if not value.name and not is_group:
            return
        begin, end = self.source.extent(node)
        yield begin, end, value.name or f"({self._spelled(value)})"
