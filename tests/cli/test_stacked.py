"""Tables that the terminal has no room for."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from kernelswarm.cli.display.stacked import fits, stacked


def table() -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("", "task", "verdict", "speedup"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is")
    table.add_row("1", "rmsnorm-abcde/n001", "confirmed", "1.73x", "1.73x against eager; limited by memory")
    table.add_row("2", "rmsnorm-abcde/n002", "wrong numbers", "", "at shape [64, 64] element 3 is 0.5")
    return table


def shown(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(stacked(table(), width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize(("width", "is_wide_enough"), [(120, True), (80, True), (50, False), (40, False)])
def test_a_table_fits_where_no_word_is_cut(width: int, is_wide_enough: bool) -> None:
    assert fits(table(), Console(file=io.StringIO(), width=width)) == is_wide_enough


def test_a_row_becomes_a_paragraph_without_what_is_empty() -> None:
    assert shown(60) == [
        "1 rmsnorm-abcde/n001",
        "  verdict: confirmed  speedup: 1.73x",
        "  what it is: 1.73x against eager; limited by memory",
        "2 rmsnorm-abcde/n002",
        "  verdict: wrong numbers",
        "  what it is: at shape [64, 64] element 3 is 0.5",
    ]


def test_no_line_is_longer_than_the_terminal_and_no_cell_is_cut() -> None:
    lines = shown(30)
    assert max(map(len, lines)) <= 30
    assert "limited by memory" in " ".join(" ".join(lines).split())
