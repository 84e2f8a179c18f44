"""``kernelswarm evaluate``: judge a kernel that somebody wrote."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..agents.home import kernelswarm_home
from ..agents.registry import ALL_ROLES
from ..agents.search import searching
from ..agents.session import Evaluation, SearchOptions, evaluation_of
from ..hardware.problem_files import LARGEST_FILE, load_problem
from ..schemas import InputError
from .completion import python_files
from .following import follow, is_interrupted
from .interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from .live import open_display
from .options import Json, Nats, Pool, ProblemFile
from .summary import NAMES, times_text
from .terminal import out, print_json

EXAMPLES = (
    "kernelswarm evaluate problems/mapid.py my_kernel.py --pool cpu",
    "kernelswarm evaluate problem.py best.py --json | jq .verdict",
)


def evaluate(
    problem: ProblemFile,
    candidate: Annotated[
        Path,
        typer.Argument(help="Candidate file: `kernel(...)` or `class ModelNew`.", autocompletion=python_files),
    ],
    pool: Pool = "cpu",
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Judge a kernel: verdict, reason, speedup. Exit status 0 only if it is correct."""
    home = kernelswarm_home()
    loaded, source = load_problem(problem), _read(candidate)
    options = SearchOptions(budget=1, synthesizer="given", candidates=(source,))

    async def run(interrupts: Interrupts) -> Evaluation | None:
        with open_display(quiet=json) as display:
            async with searching(
                loaded, pool, options, home=home, nats=nats, roles=ALL_ROLES, on_notice=display.notice
            ) as search:
                await follow(search, display, interrupts)
                return None if is_interrupted(search) else evaluation_of(search.graph, pool)

    evaluation = run_interruptible(run)
    if evaluation is None:
        return EXIT_INTERRUPTED
    if json:
        print_json(evaluation)
    else:
        _print(evaluation)
    return 0 if evaluation.correct else 1


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"candidate file {path} is no plain file; give a Python file")
        if path.exists() and path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has {path.stat().st_size} bytes; a candidate file may have {LARGEST_FILE}")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"candidate file {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"candidate file {path} cannot be read as text: {error}") from error


def _print(evaluation: Evaluation) -> None:
    colour = "green" if evaluation.correct else "red"
    verdict = evaluation.verdict.replace("_", " ")
    reason = (evaluation.reason or "").removeprefix(f"{verdict}: ")
    out.print(f"[bold {colour}]{verdict}[/]  {escape(reason)}".rstrip())
    if evaluation.speedup is not None:
        speedup = evaluation.speedup
        mark, against = "win" if evaluation.win else "no win", NAMES.get(speedup.against, speedup.against)
        out.print(f"{mark}: {speedup.median:.2f}x ({speedup.low:.2f} to {speedup.high:.2f}) against {against}")
        times = times_text(evaluation.times_ms).replace(NAMES["candidate"], "this candidate")
        out.print(times, markup=False)
    out.print(f"isolation {evaluation.isolation}; session {evaluation.session}")
