"""``kernelswarm time``: a finished file against its reference, in ordinary processes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ...hardware.ordinary.files import TimedFile, time_path
from ...schemas import Timing
from ...schemas.pool import BASELINE_NAMES
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ..completion import python_files
from ..display.live import open_display
from ..display.terminal import out, plain_table, print_value, print_wide
from ..options import Json, Pool

EXAMPLES = (
    "kernelswarm time best.py    # on this machine, in ordinary Python processes",
    "kernelswarm time best.py --problem problems/rmsnorm.py    # a file that does not carry its problem",
    "kernelswarm time best.py --pool h200    # on an accelerator: the call, host overhead included",
    "kernelswarm time best.py --json | jq .timing.speedup.compile",
)


def time(
    file: Annotated[Path, typer.Argument(help="Finished file: best.py of a search.", autocompletion=python_files)],
    problem: Annotated[
        Path | None,
        typer.Option(
            "--problem",
            help="Problem file, where the finished file does not carry it.",
            autocompletion=python_files,
            show_default=False,
        ),
    ] = None,
    pool: Pool = "cpu",
    json: Json = False,
) -> int:
    """Time a finished file as your own program would see it. Exit status 1 if that cannot be done, or it is wrong."""

    async def run(interrupts: Interrupts) -> TimedFile:
        with open_display(quiet=json) as display:
            return await time_path(file, problem, pool, kernelswarm_home(), display.notice)

    timed = run_interruptible(run)
    print_value(timed, lambda _: _print(timed, file), json=json)
    return 0 if timed.timing is not None else 1


def _print(timed: TimedFile, file: Path) -> None:
    if timed.timing is None:
        out.print(f"not timed: {timed.missing}", markup=False)
    else:
        # The table's words are those of a search on the same pool.
        title = "call" if timed.accelerator else "in ordinary processes"
        for shape in timed.timing.shapes:
            print_wide(_table(shape.timing, file, f"{title}, shape {shape.shape} (weight {shape.weight:g})"))
        if timed.timing.shapes:
            title = f"{title}, geometric mean"
        print_wide(_table(timed.timing, file, title))
    for name, reason in timed.baselines_missing.items():
        out.print(f"without {BASELINE_NAMES.get(name, name)}: {reason}", markup=False)


def _table(timing: Timing, file: Path, title: str) -> Table:
    table = plain_table(title, numbers=("time", "speedup", "interval"))
    for name, ms in timing.median_ms.items():
        interval = timing.speedup.get(name)
        ratio = ("", "") if interval is None else interval.cells
        table.add_row(BASELINE_NAMES.get(name, file.name), f"{ms:.4g} ms", *ratio)
    return table
