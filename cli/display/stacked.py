"""A table that is too wide for the terminal, as a paragraph for each row: no cell is cut."""

from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

MOST_LINES = 4
"""Lines of a row, in the mean, beyond which its narrow columns are no table any more."""
INDENT = 2
GAP = 2
"""Between columns."""


def fits(table: Table, console: Console) -> bool:
    """Whether every column has room for its words, or for its cells where these are not to be wrapped."""
    widths = (max(map(_least(column), [column.header, *column.cells])) for column in table.columns)
    if sum(widths) + GAP * (len(table.columns) - 1) > console.width:
        return False
    return len(console.render_lines(table)) <= MOST_LINES * (table.row_count + 1)


def _least(column: Column) -> Callable[[object], int]:
    def width(cell: object) -> int:
        lines = _text(cell).plain.splitlines() if column.no_wrap else _text(cell).plain.split()
        return max(map(cell_len, lines), default=0)

    return width


def stacked(table: Table, width: int) -> Group:
    """A heading for each row, the first cell; below it what the other cells are, as many to a line as fit."""
    names = [_text(column.header).plain for column in table.columns]
    rows = zip(*([_text(cell) for cell in column.cells] for column in table.columns), strict=True)
    return Group(
        *([Text.from_markup(str(table.title), style="bold")] if table.title else []),
        *(
            part
            for row, cells in zip(table.rows, rows, strict=True)
            for part in _row(names, cells, row.style or "", width - INDENT)
        ),
    )


def _row(names: list[str], cells: tuple[Text, ...], style: object, width: int) -> Iterator[Text | Padding]:
    # A column without a name (a rank) belongs to the heading.
    first = next((index for index, name in enumerate(names) if name), len(names) - 1) + 1
    yield Text(" ").join(cells[:first]).append("", style="bold")
    line = Text(style=str(style))
    for name, cell in zip(names[first:], cells[first:], strict=True):
        if not cell.plain.strip():
            continue
        pair = Text.assemble((f"{name}: ", "dim"), cell)
        if line.plain and (line.cell_len + 2 + pair.cell_len > width or "\n" in pair.plain):
            yield Padding(line, (0, 0, 0, INDENT))
            line = Text(style=str(style))
        line = Text.assemble(line, "  " if line.plain else "", pair)
    if line.plain:
        yield Padding(line, (0, 0, 0, INDENT))


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))
