"""``kernelswarm compile``: a candidate for a pool's hardware, which need not be here."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ...hardware.languages.assembly import assembly, language_taken
from ...hardware.languages.compiling import compile_candidate, read_candidate
from ...hardware.platforms import known
from ...hardware.pools.pool_files import find_pool
from ...schemas import CompileReport, InputError
from ...sessions.home import kernelswarm_home
from ..completion import python_files
from ..display.terminal import out, print_json, print_wide
from ..options import Json, Pool

EXAMPLES = (
    "kernelswarm compile my_kernel.py --pool h200    # no GPU needed",
    "kernelswarm compile best.py --pool h200 --assembly asm/    # PTX and SASS as files",
)


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
    home = kernelswarm_home()
    hardware_pool = find_pool(pool, home)
    source = read_candidate(candidate)
    language = language_taken(source, hardware_pool, candidate)

    async def run() -> tuple[CompileReport, dict[str, str]]:
        facts = known(hardware_pool, home)
        report, paths = await compile_candidate(
            source, language, pool=hardware_pool, hardware=facts, cache=home / "artifacts"
        )
        texts: dict[str, str] = {}
        for path in paths.values() if folder is not None else ():
            texts |= await assembly(source, language, path, pool=hardware_pool, hardware=facts)
        return report, texts

    report, texts = asyncio.run(run())
    if folder is not None and report.ok:
        if not texts:
            raise InputError(f"{candidate} has no native code that is compiled ahead: leave --assembly out")
        _write(folder, texts)
    if json:
        print_json(report)
    else:
        _print(report)
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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("kernel", "registers", "spilled bytes", "shared bytes", "warps", "stages"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
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
