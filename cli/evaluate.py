"""``kernelswarm evaluate``: judge kernels that somebody wrote."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from ..agents.home import kernelswarm_home
from ..agents.search import grounded, session_on
from ..agents.session import Evaluation, SearchOptions, evaluation_of
from ..agents.synthesizer.backend import GIVEN
from ..hardware.assembly import language_taken
from ..hardware.neighbours import refuse_neighbours
from ..hardware.pool_files import find_pool
from ..hardware.problem_files import LARGEST_FILE, load_problem
from ..schemas import InputError
from .completion import python_files
from .following import follow, is_interrupted
from .interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from .live import open_display
from .options import Nats, Pool, ProblemFile
from .summary import NAMES, times_text
from .terminal import out, print_json

EXAMPLES = (
    "kernelswarm evaluate problems/mapid.py my_kernel.py --pool cpu",
    "kernelswarm evaluate problem.py best.py --json | jq .verdict",
    "kernelswarm evaluate problem.py mine.py yours.py --json     # one line of JSON for each file, in their order",
)


def evaluate(
    problem: ProblemFile,
    candidate: Annotated[
        list[Path],
        typer.Argument(
            help="Candidate files: `kernel(...)` or `class ModelNew`. Several are judged one after the other.",
            autocompletion=python_files,
        ),
    ],
    pool: Pool = "cpu",
    nats: Nats = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file, for programs.")] = False,
) -> int:
    """Judge kernels: verdict, reason, speedup. Exit status 0 only if all of them are correct."""
    home = kernelswarm_home()
    loaded, sources, place = load_problem(problem), _read(candidate), find_pool(pool, home)
    for path, source in zip(candidate, sources, strict=True):
        language_taken(source, place, path)
    right: list[bool] = []

    async def run(interrupts: Interrupts) -> None:
        """Each file is a session of its own; reference, baselines and bus are shared."""
        async with AsyncExitStack() as stack:
            with open_display(quiet=json) as display:
                ground = await stack.enter_async_context(
                    grounded(loaded, place, home=home, nats=nats, on_notice=display.notice)
                )
            for path, source in zip(candidate, sources, strict=True):
                with open_display(quiet=json) as display:
                    async with session_on(ground, _given(source)) as search:
                        await follow(search, display, interrupts)
                if is_interrupted(search):
                    return
                evaluation = evaluation_of(search.graph, pool)
                if json:
                    print_json({"candidate": str(path), **msgspec.to_builtins(evaluation)})
                else:
                    _print(evaluation, path if len(candidate) > 1 else None)
                right.append(evaluation.correct)

    run_interruptible(run)
    if len(right) < len(candidate):
        return EXIT_INTERRUPTED
    return 0 if all(right) else 1


def _given(source: str) -> SearchOptions:
    return SearchOptions(budget=1, synthesizer=GIVEN, candidates=(source,))


def _read(paths: Sequence[Path]) -> list[str]:
    """The files' texts.

    Raises:
        InputError: some cannot be used; a sentence for each of them.
    """
    sources, wrong = [], []
    for path in paths:
        try:
            sources.append(_read_one(path))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError("; ".join(dict.fromkeys(wrong)))
    return sources


def _read_one(path: Path) -> str:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"candidate file {path} is no plain file; give a Python file")
        if path.exists() and path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has {path.stat().st_size} bytes; a candidate file may have {LARGEST_FILE}")
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"candidate file {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"candidate file {path} cannot be read as text: {error}") from error
    refuse_neighbours(source, path)
    return source


def _print(evaluation: Evaluation, path: Path | None) -> None:
    """Print a verdict; ``path`` names its file where there are several."""
    colour = "green" if evaluation.correct else "red"
    verdict = evaluation.verdict.replace("_", " ")
    reason = (evaluation.reason or "").removeprefix(f"{verdict}: ")
    if path is not None:
        out.print(f"[bold]{escape(str(path))}[/]")
    out.print(f"[bold {colour}]{verdict}[/]  {escape(reason)}".rstrip())
    if evaluation.speedup is not None:
        speedup = evaluation.speedup
        mark, against = "win" if evaluation.win else "no win", NAMES.get(speedup.against, speedup.against)
        out.print(f"{mark}: {speedup.median:.2f}x ({speedup.low:.2f} to {speedup.high:.2f}) against {against}")
        times = times_text(evaluation.times_ms).replace(NAMES["candidate"], "this candidate")
        out.print(times, markup=False)
    out.print(f"isolation {evaluation.isolation}; session {evaluation.session}")
