"""``kernelswarm bench opinfo``: are drafts right for every operator and module of PyTorch's own lists?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ...bench.opinfo import DTYPES, LANGUAGES, LISTS, Cause, Choice, Report, Row, Task, bench, named
from ...sessions.home import kernelswarm_home
from ..display.terminal import err, out, plain_table, print_value, print_wide
from ..options import Json

EXAMPLES = (
    "python -m pip install expecttest",
    "kernelswarm bench opinfo",
    "kernelswarm bench opinfo --list modules --dtype bfloat16 --language triton",
    "kernelswarm bench opinfo --only 'nn.functional.*,softmax' --samples 0 --out softmax.csv",
    "kernelswarm bench opinfo --retry --json | jq '.misses[] | {rows, cause}'",
)
MOST_CAUSES = 20


def opinfo(
    list_: Annotated[
        str, typer.Option("--list", help="Which lists: modules, ops.", autocompletion=lambda: list(LISTS))
    ] = "modules,ops",
    dtype: Annotated[
        str, typer.Option("--dtype", help="Precisions of the samples.", autocompletion=lambda: list(DTYPES))
    ] = "float32,bfloat16",
    language: Annotated[
        str, typer.Option("--language", help="Languages of the drafts.", autocompletion=lambda: list(LANGUAGES))
    ] = "cpp,triton",
    only: Annotated[
        str, typer.Option("--only", help="Names, * for anything: 'linalg.*,softmax'.", show_default=False)
    ] = "",
    samples: Annotated[int, typer.Option("--samples", help="Of each name, first to last; 0: all.")] = 2,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="CSV file; by default opinfo/opinfo.csv in KERNELSWARM_HOME.", show_default=False),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do everything again, also what is done.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Do again what is not right.")] = False,
    at_once: Annotated[
        int | None, typer.Option("--at-once", help="Processes; by default one a core.", show_default=False)
    ] = None,
    json: Json = False,
) -> int:
    """Draft every operator and module of PyTorch's own test lists, and hold each draft against PyTorch.

    C++ drafts run here. Triton drafts are compiled for sm_90 without a GPU, and run where there is one. Each is checked
    at the sizes that it was captured at and at others. Nothing is timed. The same command goes on where it was; beside
    the CSV lies a Markdown page with the misses by cause. Exit status 1 if a draft is wrong. docs/opinfo.md has more.
    """
    choice = Choice(
        home=kernelswarm_home(),
        lists=_split(list_),
        dtypes=_split(dtype),
        languages=_split(language),
        only=_split(only),
        samples=samples,
        out=out_file,
        fresh=fresh,
        retry=retry,
        at_once=at_once,
    )
    report = bench(choice, _quiet if json else _line)
    print_value(report, _print, json=json)
    return 0 if all(share.right == share.drafts for share in report.shares) else 1


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _quiet(task: Task, rows: Sequence[Row], done: int, of: int) -> None:
    """Nothing."""


def _line(task: Task, rows: Sequence[Row], done: int, of: int) -> None:
    missed = [row for row in rows if row.cause and not row.is_right]
    what = missed[0].cause if missed else "right"
    err.print(f"{done}/{of} {task.title}: {what}", markup=False, soft_wrap=True)


def _print(report: Report) -> None:
    out.print(f"[bold]PyTorch's own lists[/], {report.done} of {report.chosen} names")
    table = plain_table(
        "list", "dtype", "language", "sizes", numbers=("samples", "right", "generated", "of samples", "of drafts")
    )
    for share in report.shares:
        counts = map(str, (share.samples, share.right, share.generated))
        table.add_row(
            *(share.list, share.dtype, share.language, share.sizes, *counts),
            *(f"{share.of_samples:.1%}", f"{share.of_drafts:.1%}"),
        )
    print_wide(table)
    print_wide(_causes("misses", report.misses))
    print_wide(_causes("left out: no answer is right", report.excluded))
    out.print(f"rows     {report.path}", markup=False)


def _causes(title: str, causes: Sequence[Cause]) -> Table:
    table = plain_table(title, numbers=("rows",))
    for column in ("outcome", ""):
        table.add_column(column)
    for cause in causes[:MOST_CAUSES]:
        table.add_row(escape(cause.cause), str(cause.rows), str(cause.outcome), escape(named(cause)))
    return table
