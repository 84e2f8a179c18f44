"""``make chaos``, or ``python -m kernelswarm.tests.chaos --help``: is anything lost, whatever breaks?"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kernelswarm.cli.display.terminal import err, out, print_json
from kernelswarm.cli.options import Json
from kernelswarm.cli.report import make_folder
from kernelswarm.schemas import InputError
from kernelswarm.sessions.interrupts import Interrupts, run_interruptible

from . import KINDS, RoundResult, run_rounds
from .plans import chosen_kinds


def chaos(
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 20,
    seed: Annotated[int, typer.Option(help="What breaks when follows from it.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Only this kind, may be repeated; of {', '.join(KINDS)}.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--round", min=1, help="Run this one round alone.", show_default=False)
    ] = None,
    first: Annotated[int, typer.Option(min=1, help="Number of the first round.")] = 1,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the homes of rounds that failed; by default a temporary one.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run small searches on a fleet of real processes while things break, and look whether anything was lost.

    Everything happens in a folder of its own: your log, your server and your workers are not touched. Processes are
    killed, held and cut off, disks filled, events doubled. After every round each event must be in the log exactly
    once, the chain must hold, the session must have ended, with the decisions of its own replay, and no process may
    be left behind. Exit status 1 if anything is wrong.
    """
    kinds = chosen_kinds(only or [])
    if not sys.platform.startswith("linux"):
        raise InputError(f"chaos looks for leftover processes and fills disks as Linux does; this is {sys.platform}")
    numbers = [number] if number is not None else list(range(first, first + rounds))
    folder = keep or Path(tempfile.mkdtemp(prefix="kernelswarm-chaos-"))
    make_folder(folder, "--keep")

    def on_result(result: RoundResult) -> None:
        _show(result, only or [], err if json else out)

    async def run(interrupts: Interrupts) -> list[RoundResult]:
        return await run_rounds(numbers, seed, kinds, folder.absolute(), on_result)

    try:
        results = run_interruptible(run)
    except KeyboardInterrupt:
        err.print(f"interrupted; the fleet's home is left in {folder}", markup=False)
        raise
    if keep is None and not any(result.faults for result in results):
        shutil.rmtree(folder, ignore_errors=True)
    if json:
        print_json(results)
    else:
        _sum_up(results)
    raise typer.Exit(int(any(result.faults for result in results)))


def _show(result: RoundResult, only: list[str], on: Console) -> None:
    verdict = "FAILED" if result.faults else "ok"
    done = ", ".join(result.done)
    on.print(
        f"round {result.number:>4}  {verdict:<6}  {result.seconds:5.1f} s  {result.events:>3} events  {done}",
        markup=False,
    )
    for fault in result.faults:
        err.print(f"  {fault}", markup=False)
    if result.faults:
        again = "".join(f" --only {kind}" for kind in only)
        err.print(f"  kept in {result.home}", markup=False)
        err.print(
            f"  again: python -m kernelswarm.tests.chaos --seed {result.seed} --round {result.number}{again}",
            markup=False,
        )


def _sum_up(results: list[RoundResult]) -> None:
    failed = sum(bool(result.faults) for result in results)
    counts = Counter(done.partition(":")[0] for result in results for done in result.done)
    summary = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    seconds = sum(result.seconds for result in results)
    out.print(f"{len(results)} rounds, {len(results) - failed} passed, in {seconds:.0f} s; {summary}", markup=False)


if __name__ == "__main__":
    try:
        typer.run(chaos)
    except InputError as error:
        err.print(f"error: {error}", markup=False)
        sys.exit(2)
