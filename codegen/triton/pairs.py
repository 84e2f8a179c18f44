"""Pairs of reductions that one pass over the blocks of a row makes together: softmax, and mean with variance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.loops import Accumulation
from ..lowering.online import OnlinePair, online_pairs
from ..lowering.welford import VariancePair, variance_pairs
from .prepare import Tile
from .reduce import fold, neutral
from .scope import INSIDE
from .text import TYPES
from .tunables import GpuSettings

if TYPE_CHECKING:
    from .rows import RowWriter

_LOG2_E = "1.4426950408889634"

Parts = tuple[list[str], list[str], list[str]]
"""Statements before, in and after the loop over blocks."""


@dataclass(frozen=True)
class Pair:
    """Two reductions, the second of which needs the first, made in the first one's pass."""

    first: Accumulation
    second: Accumulation
    lines: Callable[["RowWriter"], Parts]


def pairs_of(kernel: Tile, block: int, flat: bool, settings: GpuSettings) -> list[Pair]:
    """The pairs of a kernel that goes over its rows in blocks."""
    pairs: list[Pair] = []
    if not block or kernel.below is not None:
        return pairs
    if settings.online and flat:
        pairs += [Pair(p.maximum, p.total, _online(p)) for p in online_pairs(kernel)]
    if settings.variance == "welford":
        pairs += [Pair(p.total, p.squares, _welford(p)) for p in variance_pairs(kernel)]
    return pairs


def _online(pair: OnlinePair) -> Callable[["RowWriter"], Parts]:
    """Maximum and sum of exponentials in one pass (Milakov and Gimelshein 2018): a larger maximum rescales."""

    def lines(writer: "RowWriter") -> Parts:
        scope, needs = writer.scope, writer.needs
        top, total = writer.name_of(pair.maximum), writer.name_of(pair.total)
        new, shift = scope.fresh(f"{top}_new"), scope.fresh(f"{top}_shift")
        exp = needs.function("exp", pair.total.dtype)
        value = writer.masked(pair.maximum)
        body = writer.drained(INSIDE)
        body.append(f"{new} = {needs.helper('ks_max')}({top}, {fold(pair.maximum, value, 0, False, needs)})")
        body.append(f'{shift} = tl.where({new} == float("-inf"), 0.0, {new})')
        scope.results[pair.maximum.name] = shift
        added = _exponentials(writer, pair, shift)
        body += [
            *writer.drained(INSIDE),
            f"{total} = {total} * {exp}({top} - {shift}) + tl.sum({added}, 0)",
            f"{top} = {new}",
        ]
        scope.results[pair.maximum.name] = top
        head = [f"{top} = {neutral(pair.maximum)}", f"{total} = tl.full((), 0, {TYPES[pair.maximum.dtype]})"]
        # A row of nothing but -inf has no softmax: NaN, as the definition gives.
        return head, body, [f'{total} = tl.where({top} == float("-inf"), float("nan"), {total})']

    return lines


def _exponentials(writer: "RowWriter", pair: OnlinePair, shift: str) -> str:
    """What is added up. The hardware's exponential is one of 2: of rows in half precision the factor joins the
    subtraction in one operation, as the maximum rounded once more is nothing there. Such rows are read so fast that
    operations count: cross entropy over 32,768 classes took 137.9 instead of 145.9 us on an H200.
    """
    if writer.width != 2 or writer.needs.function("exp", pair.total.dtype) != "tl.exp":
        return writer.masked(pair.total)
    element = writer.scope.text(pair.maximum.body)
    return f"tl.where({writer.mask}, tl.exp2({element} * {_LOG2_E} - {shift} * {_LOG2_E}), 0.0)"


def _welford(pair: VariancePair) -> Callable[["RowWriter"], Parts]:
    """Mean and squared distances of every lane in one pass, then the lanes' together."""

    def lines(writer: "RowWriter") -> Parts:
        scope, t = writer.scope, TYPES[pair.total.dtype]
        total, squares = writer.name_of(pair.total), writer.name_of(pair.squares)
        names = ("mean", "rest", "value", "step", "seen", "whole")
        mean, rest, value, step, seen, whole = (scope.fresh(f"{total}_{part}") for part in names)
        shape, positions, length, block, axis, keeps = writer.lanes()
        keep_dims = ", keep_dims=True" if keeps else ""
        element = scope.text(pair.total.body)
        head = [f"{mean} = tl.zeros({shape}, {t})", f"{rest} = tl.zeros({shape}, {t})"]
        body = [
            *writer.drained(INSIDE),
            # A lane without an element stays as it is: its distance from its own mean is zero.
            f"{value} = tl.where({writer.mask}, {element}, {mean})",
            f"{step} = {value} - {mean}",
            f"{mean} += {step} * (1.0 / tl.cast(start // {block} + 1, {t}))",
            f"{rest} += {step} * ({value} - {mean})",
        ]
        tail = [
            f"{seen} = tl.cast(({length} - {positions} + {block - 1}) // {block}, {t})",
            f"{total} = tl.sum({mean} * {seen}, {axis}{keep_dims})",
            f"{whole} = {mean} - {total} / tl.cast({length}, {t})",
            f"{squares} = tl.sum({rest} + {seen} * {whole} * {whole}, {axis}{keep_dims})",
        ]
        return head, body, tail

    return lines
