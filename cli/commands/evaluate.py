"""``kernelswarm evaluate``: judge kernels that somebody wrote."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from ...agents.synthesizer.backend import GIVEN
from ...graph.session_graph import SearchGraph
from ...hardware.languages.assembly import language_taken
from ...hardware.languages.compiling import read_candidate
from ...hardware.pools.pool_files import find_pool
from ...hardware.sources.native_source import Refused, parsed
from ...hardware.sources.problem_files import load_problem, missing_entry
from ...schemas import InputError, limits_text
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from ...sessions.results import Evaluation, evaluation_of, stage
from ...sessions.search import session_on
from ...sessions.search_context import search_context
from ...sessions.search_options import SearchOptions, defaults, given
from ..completion import python_files
from ..display.live import open_display
from ..display.summary import NAMES, counted_text, ratio_text, shapes_table, times_text
from ..display.terminal import err, out, print_json, print_wide
from ..display.unjudged import next_step, stage_text
from ..following import follow, is_interrupted
from ..options import Nats, Pool, ProblemFile
from ..search_parameters import taking

EXAMPLES = (
    "kernelswarm evaluate problems/mapid.py my_kernel.py --pool cpu",
    "kernelswarm evaluate problem.py best.py --json | jq .verdict",
    "kernelswarm evaluate problem.py mine.py yours.py --json     # one line of JSON for each file, in their order",
    "kernelswarm evaluate problem.py mine.py --pool h200 --no-profile    # verdict and speedup, sooner",
)


@taking(("against", "measure"), defaults())
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
    profile: Annotated[
        bool,
        typer.Option(
            "--profile/--no-profile", help="Have an accelerator's profilers look into correct kernels (show --node)."
        ),
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file, for programs.")] = False,
    **choices: Any,
) -> int:
    """Judge kernels: verdict, reason, speedup. Exit status 0 only if all of them are correct."""
    home = kernelswarm_home()
    loaded, sources, place = load_problem(problem), _read(candidate), find_pool(pool, home)
    for path, source in zip(candidate, sources, strict=True):
        language_taken(source, place, path)
        _warn(path, source)
    options = [_given(source, choices, profile) for source in sources]
    for option in options:
        option.check()
        option.check_pool(place)
    right: list[bool] = []

    async def run(interrupts: Interrupts) -> None:
        """Each file is a session of its own; reference, baselines and bus are shared."""
        async with AsyncExitStack() as stack:
            with open_display(quiet=json) as display:
                context = await stack.enter_async_context(
                    search_context(loaded, place, home=home, nats=nats, profilers=profile, on_notice=display.notice)
                )
            for path, option in zip(candidate, options, strict=True):
                with open_display(quiet=json) as display:
                    async with session_on(context, option) as search:
                        await follow(search, display, interrupts)
                    if is_cut_off := is_interrupted(search):
                        display.say(f"{path}: {interrupted_text(search.graph)}")
                if is_cut_off and not _has_verdict(search.graph):
                    return
                evaluation = evaluation_of(search.graph, pool)
                if json:
                    print_json({"candidate": str(path), **_fields(evaluation)})
                else:
                    _print(evaluation, path if len(candidate) > 1 else None)
                if is_cut_off:
                    return
                right.append(evaluation.correct)

    run_interruptible(run)
    if len(right) < len(candidate):
        return EXIT_INTERRUPTED
    return 0 if all(right) else 1


def _has_verdict(graph: SearchGraph) -> bool:
    return any(node.diagnosis is not None for node in graph.own())


def interrupted_text(graph: SearchGraph) -> str:
    """How far the one candidate of an interrupted evaluation came."""
    show = f"kernelswarm show {graph.session} prints what there is"
    node = next(iter(graph.own()), None)
    if _has_verdict(graph):
        return f"interrupted before it was timed a second time; {show}"
    if node is None or node.candidate is None:
        return f"interrupted before anything was done; {show}"
    state = stage(node)
    return f"{stage_text(state)}: interrupted before {next_step(state)}; {show}"


def _given(source: str, choices: Mapping[str, Any], profile: bool) -> SearchOptions:
    return SearchOptions(
        budget=1,
        synthesizer=GIVEN,
        candidates=(source,),
        confirmations=1,
        policy_options={} if profile else {"looks": 0},
        **given(choices),
    )


def _read(paths: Sequence[Path]) -> list[str]:
    """The files' texts.

    Raises:
        InputError: some cannot be used; a sentence for each of them.
    """
    sources, wrong = [], []
    for path in paths:
        try:
            sources.append(read_candidate(path))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError("; ".join(dict.fromkeys(wrong)))
    return sources


def _warn(path: Path, source: str) -> None:
    """Say at once what would else be known at the file's turn, minutes later; it is judged all the same."""
    try:
        parsed(source)
        if missing := missing_entry(source):
            err.print(f"{path}: {missing}; it will not be correct", markup=False)
    except Refused as refused:
        line = refused.diagnostic.line
        err.print(f"{path}: {refused}{f' (line {line})' if line else ''}; it will not be correct", markup=False)


def _speedups(evaluation: Evaluation) -> Iterator[str]:
    """Ordinary processes first, where they were timed; then the judge."""
    mark = "win" if evaluation.win else "no win"
    if evaluation.device is not None:
        yield from _two_numbers(evaluation, mark)
        return
    if evaluation.counted is None or evaluation.speedup is None:
        return
    counted = ratio_text(evaluation.counted)
    if evaluation.ordinary is None:
        missing = evaluation.ordinary_missing
        yield f"{mark}: {counted}" + (f"; not timed in ordinary processes: {missing}" if missing else "")
        if not evaluation.win and not missing and evaluation.counted.low > 1:
            yield f"why: {evaluation.detail.removeprefix('no win found: ')}"
        yield _times(evaluation.times_ms, evaluation)
        return
    yield f"{mark}: {counted} in ordinary processes"
    yield _times(evaluation.ordinary.times_ms, evaluation)
    yield f"judge: {ratio_text(evaluation.speedup)}; {_times(evaluation.times_ms, evaluation)}"


def _two_numbers(evaluation: Evaluation, mark: str) -> Iterator[str]:
    """Device and call on an accelerator, the one first that makes a win."""
    missing = evaluation.ordinary_missing
    counted = f": {ratio_text(evaluation.counted)}" if evaluation.counted is not None else ""
    yield f"{mark} ({evaluation.measure}){counted}" + (f"; not timed as a call: {missing}" if missing else "")
    numbers = {"device": evaluation.device, "call": evaluation.call}
    for name in sorted(numbers, key=lambda name: name != evaluation.measure):
        number = numbers[name]
        if number is not None:
            ratios = (f"{speedup.in_words} of {NAMES.get(key, key)}" for key, speedup in number.speedups.items())
            yield f"{name:6}  {_times(number.times_ms, evaluation)}; {', '.join(ratios)}"


def _times(times_ms: dict[str, float], evaluation: Evaluation) -> str:
    return times_text(times_ms, len(evaluation.shapes)).replace(NAMES["candidate"], "this candidate")


def _fields(evaluation: Evaluation) -> dict[str, object]:
    """As it is printed: with shapes only where several are timed, with limits only where there are some."""
    fields: dict[str, object] = msgspec.to_builtins(evaluation)
    if not evaluation.shapes:
        del fields["shapes"]
    if not evaluation.limits:
        del fields["limits"]
    return fields


def _print(evaluation: Evaluation, path: Path | None) -> None:
    """Print a verdict; ``path`` names its file where there are several."""
    colour = "green" if evaluation.correct else "red"
    verdict = evaluation.verdict.replace("_", " ")
    reason = (evaluation.reason or "").removeprefix(f"{verdict}: ")
    if path is not None:
        out.print(f"[bold]{escape(str(path))}[/]")
    out.print(f"[bold {colour}]{verdict}[/]  {escape(reason)}".rstrip())
    if evaluation.limits:
        out.print(limits_text(evaluation.limits))
    for line in _speedups(evaluation):
        out.print(line, markup=False)
    if evaluation.shapes:
        print_wide(shapes_table(evaluation.shapes, counted_text(evaluation)))
    out.print(f"isolation {evaluation.isolation}; session {evaluation.session}")
