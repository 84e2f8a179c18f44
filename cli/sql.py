"""``kernelswarm sql``: any question to the log, while a search runs and after."""

import asyncio
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table as Picture
from rich.text import Text

from ..agents.home import kernelswarm_home
from ..store import Table, log_path, run_sql
from .options import Nats
from .reading import asked_bus, nothing_in
from .spelling import as_csv, as_json, cell
from .terminal import err, print_wide, write

EXAMPLES = (
    'kernelswarm sql "SELECT session, problem, speedup FROM sessions WHERE win ORDER BY speedup DESC"',
    "kernelswarm sql \"SELECT node, verdict, speedup, bottleneck FROM nodes WHERE session = 'mapid-7kq2m'\"",
    'kernelswarm sql "SELECT * FROM measurements" --format csv > measurements.csv',
    "kernelswarm sql \"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'nodes'\"",
    "kernelswarm sql - < question.sql",
)


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT in DuckDB's SQL; `-` reads it from stdin.")],
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="By default a table on a terminal, CSV elsewhere.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows at most.")] = 10_000,
    nats: Nats = "",
) -> int:
    """Ask the log in SQL.

    Views: sessions, nodes, candidates, measurements, diagnoses, model_calls, lineage, skills. Under them: events.
    """
    home = kernelswarm_home()
    shape = format or (Format.table if sys.stdout.isatty() else Format.csv)
    if not nats and not log_path(home).exists():
        err.print(nothing_in(home), markup=False)
        write("[]\n" if shape is Format.json else "")
        return 0
    text = sys.stdin.read() if query == "-" else query

    async def ask() -> Table:
        async with asked_bus(nats) as bus:
            return await run_sql(home, text, bus=bus, max_rows=limit)

    _print(asyncio.run(ask()), shape)
    return 0


def _print(table: Table, shape: Format) -> None:
    match shape:
        case Format.csv:
            write(as_csv(table))
        case Format.json:
            write(as_json(table))
        case Format.table:
            print_wide(_picture(table))
    if table.truncated:
        err.print(f"there is more: only the first {len(table.rows)} rows are shown (--limit)")


def _picture(table: Table) -> Picture:
    picture = Picture(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(table.columns):
        numbers = all(isinstance(row[index], int | float | None) for row in table.rows)
        picture.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in table.rows:
        picture.add_row(*(Text("NULL", style="dim") if value is None else Text(cell(value)) for value in row))
    return picture
