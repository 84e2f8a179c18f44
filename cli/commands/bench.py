"""``kernelswarm bench``: public benchmarks, run from the user's own checkout; a command for each in the registry."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ...agents.registry import ALL_ROLES
from ...bench.registry import BENCHMARKS
from ...bench.runs import Benchmark, Choice, Report, RunConfiguration, report_so_far, run_benchmark
from ...bench.runs.run_configuration import BUDGET
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from ...sessions.search_options import AuthorChoices, SearchOptions, defaults, given, hints_of
from ..connecting import connecting
from ..display.bench_live import open_watcher
from ..display.bench_summary import print_report
from ..display.terminal import err, print_value
from ..groups import epilog, group
from ..options import Json, Nats, Pool, Workers
from ..search_parameters import taking
from . import bench_opinfo

app = group("bench", "Public benchmarks, run from your own checkout of them.")

DETAILS = """

Every problem is a session: a row with its speedups over eager and over the best compile, or with the cause of the miss.
Ctrl-C and kill leave everything in place: the same command goes on where it was. What is done is kept, unless the
problem, the pool, an option or a version has changed. docs/benchmarks-public.md describes the columns.
"""


@taking(hints_of(AuthorChoices), defaults(budget=BUDGET), after="problems")
def _bench(
    benchmark: Benchmark,
    path: Path | None,
    choices: dict[str, str],
    *,
    pool: Pool = "cpu",
    problems: Annotated[
        str,
        typer.Option(help="Which, by number or name: 1-20,33,*relu*; by default all.", show_default=False),
    ] = "",
    minutes_per_problem: Annotated[
        float, typer.Option(help="Stop planning for a problem after so long; cut it off a quarter later.")
    ] = 15.0,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="CSV file of the results, with a Markdown table beside it; by default under the benchmark's name in "
            "KERNELSWARM_HOME.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do every problem again, also what is done.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Do again what crashed or ran out of time.")] = False,
    at_once: Annotated[
        int | None,
        typer.Option(
            help="Problems to search at the same time; timing has a device alone. By default one on each device.",
            show_default=False,
        ),
    ] = None,
    nats: Nats = "",
    workers: Workers = True,
    json: Json = False,
    **search: Any,
) -> int:
    configuration = RunConfiguration(
        benchmark=benchmark,
        root=path,
        home=kernelswarm_home(),
        choices=benchmark.resolved(choices),
        problems=problems,
        pool=pool,
        search=SearchOptions(**given(search)),
        minutes_per_problem=minutes_per_problem,
        out=out_file,
        fresh=fresh,
        retry=retry,
        at_once=at_once,
        nats=nats,
        roles=dict(ALL_ROLES) if workers else {},
    )
    return _run(configuration, json=json)


def _run(configuration: RunConfiguration, *, json: bool) -> int:
    async def run(interrupts: Interrupts) -> Report:
        with open_watcher(configuration.benchmark.title, quiet=json) as watcher:
            return await run_benchmark(configuration, watcher)

    configuration.check()
    try:
        report, status = run_interruptible(run), 0
    except KeyboardInterrupt:
        report, status = report_so_far(configuration), EXIT_INTERRUPTED
    print_value(report, print_report, json=json)
    if status == EXIT_INTERRUPTED:
        err.print(f"{report.done} of {report.problems} problems are done: the same command goes on", markup=False)
    return status


def command_for(benchmark: Benchmark) -> Callable[..., int]:
    """The command of a benchmark: its checkout, its choices, and the options that all have."""
    path = [_path(benchmark.checkout)] if benchmark.checkout else []
    own = [_option(choice) for choice in benchmark.choices]
    taken = inspect.signature(_bench).parameters.values()
    shared = [parameter for parameter in taken if parameter.kind is inspect.Parameter.KEYWORD_ONLY]

    def command(path: Path | None = None, **options: Any) -> int:
        choices = {choice.name: options.pop(choice.name) for choice in benchmark.choices}
        return _bench(benchmark, path, choices, **options)

    parameters = [*path, *own, *shared]
    command.__doc__ = benchmark.summary + DETAILS
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _path(text: str) -> inspect.Parameter:
    return inspect.Parameter(
        "path", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[Path, typer.Argument(help=text)]
    )


def _option(choice: Choice) -> inspect.Parameter:
    def values(incomplete: str) -> list[str]:
        return [value for value in choice.values if value.startswith(incomplete)]

    option = typer.Option(help=choice.help, autocompletion=values, show_default=bool(choice.default))
    return inspect.Parameter(
        choice.name, inspect.Parameter.KEYWORD_ONLY, default=choice.default, annotation=Annotated[str, option]
    )


for _benchmark in BENCHMARKS.values():
    app.command(_benchmark.name, epilog=epilog(_benchmark.examples))(connecting(command_for(_benchmark)))

app.command("opinfo", epilog=epilog(bench_opinfo.EXAMPLES))(bench_opinfo.opinfo)
