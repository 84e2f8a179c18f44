"""How kernels with rows are cut into programs: rows at once, whole or in blocks, along memory or across it."""

from dataclasses import dataclass

from ..ir.poly import product
from .power_of_two_split import can_split_rows, row_split_of
from .prepare import BUSY, HELD_ELEMENTS, Sizes, Tile, columns_held, is_columns, power
from .tunables import GpuSettings

WHOLE_LIMIT = 1 << 16
"""Longest row that a program may be asked to hold."""

_TILE_LIMIT = 1 << 20
"""Elements of a tile: Triton takes no more."""
_WIDEST = 256
"""Most columns of a program that goes over them in blocks."""
_LONG = 1 << 15
"""Longest row that is read in blocks of 4096 elements: of 65,535 that took 12.1 ms, in blocks of 8192 8.4 (H100)."""
_MOST_AT_ONCE = 4096
"""Elements that a program of a column reduction has under way where there are few programs."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is cut into programs. ``rows`` and ``block`` are powers of two."""

    rows: int
    """Rows of a program."""
    block: int
    """Elements of a row at once; 0: the whole row."""
    columns: bool = False
    """Rows lie along memory, elements of a row do not."""
    persistent: int = 0
    """Programs in all, each taking many tiles; 0: one program for each tile."""
    row_split: tuple[int, ...] = ()
    """Lengths of the parts of a whole row's power-of-two split; empty: the row is held as one."""
    longest: int = WHOLE_LIMIT
    """The longest row that a program made for whole rows may be asked for; others go to PyTorch."""

    @property
    def flat(self) -> bool:
        """Whether a program has one row, and its tiles one dimension."""
        return self.rows == 1 and not self.columns


def shape_of_tile(kernel: Tile, sizes: Sizes, settings: GpuSettings) -> Shape:
    """The cut that the settings ask for, at the main shape."""
    length = _length(kernel, sizes)
    count = sizes.of(product(kernel.dims[d] for d in kernel.outer))
    persistent = settings.programs
    columns = is_columns(kernel)
    if columns:
        return _shape_of_columns(kernel, length, count, columns_held(kernel, sizes, settings), settings)
    whole = _is_whole(kernel, length, settings)
    width = power(length) if whole else (settings.block or (4096 if length <= _LONG else 8192))
    rows = settings.rows or (_rows(width, count) if whole else 1)
    simple = whole and kernel.below is None and can_split_rows(list(kernel.accumulations.values()))
    row_split = row_split_of(length) if simple and settings.pieces == "all" else ()
    return Shape(rows if kernel.outer else 1, 0 if whole else max(16, width), False, persistent, row_split)


def _shape_of_columns(kernel: Tile, length: int, count: int, held: int, settings: GpuSettings) -> Shape:
    width = power(length)
    if held or length <= 32:
        rows = held or max(settings.rows or min(128, power(count)), 2)
        longest = (HELD_ELEMENTS if held else _TILE_LIMIT) // rows
        return Shape(rows, 0, True, settings.programs, longest=longest)
    # Few elements a thread and many threads: a maximum over 4096 elements of 524,160 columns, 128 at once, took 4.1 ms
    # with 16 elements a thread, 2.7 with 8, 2.4 with 4 (H200).
    rows = max(settings.rows or _columns_at_once(count, BUSY * settings.multiprocessors), 2)
    block = settings.block or (1024 if rows >= _WIDEST else 512)
    if not settings.block and count // rows < BUSY * settings.multiprocessors:
        # What each of a few programs has under way is what is fast: the sums of 64 channels over 980 parts took 31 us
        # with 512 elements at once (H100).
        block = min(_MOST_AT_ONCE, max(block, width * rows))
    return Shape(rows, max(1, block // rows), True, settings.programs)


def _columns_at_once(count: int, programs: int) -> int:
    rows = _WIDEST
    while rows > 32 and count // rows < programs:
        rows //= 2
    return min(rows, power(count))


def _length(kernel: Tile, sizes: Sizes) -> int:
    """Elements of a row; one that depends on the data may be of any length."""
    length = product(kernel.dims[d] for d in kernel.inner)
    return sizes.of(length) if sizes.is_backed(length) else 1 << 30


def _is_whole(kernel: Tile, length: int, settings: GpuSettings) -> bool:
    if settings.row != "auto":
        return settings.row == "whole" and length <= WHOLE_LIMIT
    rereads = any(s.level == "element" for s in kernel.stores.values())
    return length <= (32768 if rereads else 8192)


def _rows(width: int, count: int) -> int:
    rows = max(1, 2048 // width)
    while rows > 1 and count // rows < 1024:
        rows //= 2
    return rows
