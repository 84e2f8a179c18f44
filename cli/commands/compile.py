"""``kernelswarm compile``: a candidate for a pool's hardware, which need not be here."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ...hardware.languages.compiling import read_candidate
from ...hardware.sources.problem_files import missing_entry
from ...schemas import CompileReport, InputError
from ...sessions.home import kernelswarm_home
from ..compiling import compiled
from ..completion import python_files
from ..display.terminal import out, plain_table, print_value, print_wide
from ..options import Json, Pool

EXAMPLES = (
    "kernelswarm compile my_kernel.py --pool h200    # no GPU needed",
    "kernelswarm compile best.py --pool h200 --assembly asm/    # PTX and SASS as files",
)

SHARED = {"cuda": "static shared bytes"}
"""What the column of shared memory is called where it is not all: a launch of CUDA C++ may ask for more."""


def compile(
    candidate: Annotated[Path, typer.Argument(help="Candidate file.", autocompletion=python_files)],
    pool: Pool = "cpu",
    folder: Annotated[
        Path | None,
        typer.Option("--assembly", help="Write the machine code, and PTX, into this folder.", show_default=False),
    ] = None,
    json: Json = False,
) -> int:
    """Compile a candidate: messages, registers, spills, shared memory. Exit status 1 if it does not compile."""
    source = read_candidate(candidate)
    report, texts = asyncio.run(
        compiled(source, pool, kernelswarm_home(), origin=str(candidate), with_assembly=folder is not None)
    )
    if report.ok and not report.compiler and (missing := missing_entry(source)):
        raise InputError(f"{candidate}: {missing}, and has nothing to compile")
    if folder is not None and report.ok:
        if not texts:
            raise InputError(f"{candidate} has no native code that is compiled ahead: leave --assembly out")
        _write(folder, texts)
    print_value(report, _print, json=json)
    return 0 if report.ok else 1


def _print(report: CompileReport) -> None:
    for diagnostic in report.diagnostics:
        place = f"line {diagnostic.line}: " if diagnostic.line else ""
        out.print(f"{diagnostic.severity}: {place}{diagnostic.message}", markup=False)
    if report.kernels:
        print_wide(_table(report))
    by = report.compiler or ("nothing to compile" if report.ok else "")
    summary = ", ".join(
        filter(None, (by, f"{report.seconds:.1f} s", "as it was compiled before" if report.cached else ""))
    )
    out.print(f"{'[green]compiled[/]' if report.ok else '[bold red]does not compile[/]'}: {escape(summary)}")


def _table(report: CompileReport) -> Table:
    shared = SHARED.get(report.language, "shared bytes")
    table = plain_table("kernel", numbers=("registers", "spilled bytes", shared, "warps", "stages"))
    for kernel in report.kernels:
        figures = (kernel.registers, kernel.spill_bytes, kernel.shared_bytes, kernel.warps or "", kernel.stages or "")
        table.add_row(escape(kernel.name), *map(str, figures))
    return table


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write into {folder}: {error.strerror}; name another folder with --assembly"
        ) from error
