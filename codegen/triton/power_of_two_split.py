"""Rows that a program holds in parts, each a power of two, where a single one would be much longer than the row."""

from typing import TYPE_CHECKING

from ..ir.loops import Accumulation, Store
from .prepare import power
from .reduce import combine, fold, is_position
from .scope import INSIDE, OUTSIDE

if TYPE_CHECKING:
    from .rows import RowWriter

_MOST = 3
"""Parts of a row."""
_LEAST = 16
"""Shortest part: a matrix product takes no shorter one."""


def row_split_of(length: int) -> tuple[int, ...]:
    """Falling powers of two that cover a row; empty where a single one is hardly longer than they are."""
    lengths: list[int] = []
    rest = length
    while rest > 0:
        ends = len(lengths) == _MOST - 1 or rest < _LEAST
        lengths.append(max(_LEAST, power(rest) if ends else 1 << (rest.bit_length() - 1)))
        rest -= lengths[-1]
    return tuple(lengths) if len(lengths) > 1 and 8 * sum(lengths) <= 7 * power(length) else ()


def can_split_rows(accumulations: list[Accumulation]) -> bool:
    """Whether results of the parts can be put together by value alone."""
    return not any(is_position(a) for a in accumulations)


def split_pass(writer: "RowWriter", accumulations: list[Accumulation], stores: list[Store]) -> list[str]:
    """One pass: parts are reduced, their results put together, parts written. What was read stays in registers."""
    lines: list[str] = []
    for a in accumulations:
        lines += _reduced(writer, a)
    for store in stores:
        for part in range(len(writer.row_split)):
            head = writer.enter(part)
            text = writer.written(store)
            lines += [*writer.drained(OUTSIDE), *head, *writer.drained(INSIDE), text]
    return lines


def _reduced(writer: "RowWriter", a: Accumulation) -> list[str]:
    lines: list[str] = []
    axis, keeps = writer.axis
    total = ""
    for part in range(len(writer.row_split)):
        head = writer.enter(part)
        value = writer.masked(a)
        partial = writer.scope.fresh(f"{a.name}_piece")
        lines += [*writer.drained(OUTSIDE), *head, *writer.drained(INSIDE)]
        lines.append(f"{partial} = {fold(a, value, axis, keeps, writer.needs)}")
        total = combine(a, f"({total})", partial, writer.needs) if total else partial
    return [*lines, f"{writer.name_of(a)} = {f'({total}) != 0' if a.dtype == 'bool' else total}"]
