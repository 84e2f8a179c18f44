"""``kernelswarm sql``: any question to the log, while a search runs and after."""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable
from rich.text import Text

from ... import store
from ...schemas import InputError, StoreError
from ...sessions.home import kernelswarm_home
from ...store.query_limits import TIMEOUT_SECONDS
from ..completion import question_names
from ..display.formatting import as_csv, as_json, cell
from ..display.terminal import err, out, plain_table, print_json, print_wide, write
from ..nearest import nearest
from ..options import Nats
from ..reading import asked_log, damage_of, nothing_in, warn_of

EXAMPLES = (
    'kernelswarm sql "SELECT session, problem, speedup FROM sessions WHERE win ORDER BY speedup DESC"',
    "kernelswarm sql --list",
    "kernelswarm sql --question tried_on_operator --set operator=aten.mean%",
    "kernelswarm sql \"SELECT * FROM nodes WHERE session = 'mapid-7kq2m'\" --as-of 2026-11-20T22:00",
    'kernelswarm sql "SELECT * FROM measurements" --format csv > measurements.csv',
    "kernelswarm sql \"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'nodes'\"",
    "kernelswarm sql --file question.sql --timeout 120",
    "kernelswarm sql - < question.sql",
)


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT in DuckDB's SQL; `-` reads it from stdin.")] = "",
    file: Annotated[
        Path | None, typer.Option("--file", help="Read the SELECT from a file.", show_default=False)
    ] = None,
    named: Annotated[
        str,
        typer.Option(
            "--question",
            "-q",
            help="Ask a question from the library.",
            show_default=False,
            autocompletion=question_names,
        ),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter, NAME=VALUE; `$NAME` in the SQL. Repeatable.", show_default=False),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the library's questions and what they mean.")] = False,
    as_of: Annotated[
        str,
        typer.Option(
            "--as-of",
            metavar="EVENT|SEQ|TIME",
            help="The log as it was: an event's id, a position, or a time in UTC.",
            show_default=False,
        ),
    ] = "",
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="By default a table on a terminal, CSV elsewhere.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows at most.")] = 10_000,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds it may take.")] = TIMEOUT_SECONDS,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    nats: Nats = "",
) -> int:
    """Ask the log in SQL.

    It answers from what is there; `kernelswarm log verify` says whether that is what was written.

    Views: sessions, nodes, candidates, measurements, diagnoses, baselines, steps, model_calls, tool_calls,
    costs, lineage, skills; under them: events. docs/sql.md tells what every column holds.
    """
    if json and format not in (None, Format.json):
        raise InputError(f"sql was asked for --json and --format {format.value}: leave one of them out")
    shape = Format.json if json else format or (Format.table if sys.stdout.isatty() else Format.csv)
    if listed:
        return _list(shape)
    text, values = _statement(query, file, named, _parsed(settings or []))
    home = kernelswarm_home()
    if not nats and not store.log_path(home).exists():
        err.print(nothing_in(home), markup=False)
        _print(_of_nothing(text, values), shape)
        return 0

    async def ask() -> "tuple[store.Table, StoreError | None]":
        async with asked_log(home, nats) as bus:
            table = await store.run_sql(
                home, text, params=values, bus=bus, max_rows=limit, timeout=timeout, as_of=as_of
            )
            return table, await damage_of(home, nats)

    if named and shape is Format.table:
        err.print(_question(named).meaning, markup=False, style="dim")
    table, damage = asyncio.run(ask())
    _print(table, shape)
    warn_of(damage)
    return 0


def _of_nothing(text: str, values: Mapping[str, object]) -> "store.Table":
    """What a log without events answers: columns and counts are right, and a slip is refused."""
    with tempfile.TemporaryDirectory(prefix="kernelswarm-empty-") as folder:
        home = Path(folder)
        store.Log.open(store.log_path(home)).close()
        return asyncio.run(store.run_sql(home, text, params=values))


def _statement(
    query: str, file: Path | None, named: str, values: Mapping[str, str]
) -> tuple[str, Mapping[str, object]]:
    """The SELECT and its parameters."""
    if bool(query) + (file is not None) + bool(named) != 1:
        raise InputError("sql needs one of: a query, --file FILE, --question NAME, --list")
    if named:
        entry = _question(named)
        return entry.sql, entry.values(values)
    if file is not None:
        query = _read(file)
    elif query.isidentifier():
        raise InputError(f"sql takes a SELECT; ask a question by: kernelswarm sql --question {_question(query).name}")
    return sys.stdin.read() if query == "-" else query, {name: _number(value) for name, value in values.items()}


def _question(name: str) -> "store.Question":
    names = [entry.name for entry in store.questions()]
    if name not in names:
        meant = nearest(name, names) or ";"
        raise InputError(f"there is no question {name!r}{meant} `kernelswarm sql --list` shows them")
    return store.question(name)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no text in UTF-8: save it as such") from error


def _parsed(settings: list[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, _ in pairs:
        if not equals or not name.isidentifier():
            raise InputError(f"--set {name}: write it as NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _list(shape: Format) -> int:
    if shape is Format.json:
        print_json(store.questions())
        return 0
    for entry in store.questions():
        out.print(Text.assemble((entry.name, "bold"), f"  {entry.title}"))
        out.print(f"    {entry.meaning}", markup=False, style="dim")
        for name, parameter in entry.parameters.items():
            default = "needed" if parameter.default is None else f"by default {parameter.default}"
            out.print(f"    --set {name}=…  {parameter.meaning}; {default}", markup=False, style="dim")
    err.print("ask one  kernelswarm sql --question NAME", markup=False)
    return 0


def _print(table: "store.Table", shape: Format) -> None:
    match shape:
        case Format.csv:
            write(as_csv(table))
        case Format.json:
            write(as_json(table))
        case Format.table:
            print_wide(_rendered(table))
    if table.truncated:
        err.print(f"there is more: only the first {len(table.rows)} rows are shown (--limit)")


_SHOWN = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421, 0x9B: 0xFFFD}
"""Control characters as their pictures: a candidate's output must not steer the terminal that shows it."""


def _rendered(table: "store.Table") -> RichTable:
    rendered = plain_table()
    for index, name in enumerate(table.columns):
        numbers = all(isinstance(row[index], int | float | None) for row in table.rows)
        rendered.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in table.rows:
        rendered.add_row(
            *(Text("NULL", style="dim") if value is None else Text(cell(value).translate(_SHOWN)) for value in row)
        )
    return rendered
