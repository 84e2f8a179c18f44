"""``kernelswarm bench``: public benchmarks, run from the user's own checkout."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ...agents.registry import ALL_ROLES
from ...bench.kernelbench import Report, RunConfiguration, bench, report_so_far
from ...sessions.home import kernelswarm_home
from ..connecting import connecting
from ..display.bench_live import open_watcher
from ..display.bench_summary import print_report
from ..display.terminal import err, print_json
from ..interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from ..options import Json, Model, Nats, Pool, Synthesizer, Workers

LEVELS = ("1", "2", "3", "4")

app = typer.Typer(
    name="bench",
    help="Public benchmarks, run from your own checkout of them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _levels(incomplete: str) -> list[str]:
    return [level for level in LEVELS if level.startswith(incomplete)]


def kernelbench(
    path: Annotated[Path, typer.Argument(help="Root of a checkout of KernelBench (it has KernelBench/level1).")],
    level: Annotated[int, typer.Option(help="Level of the benchmark.", autocompletion=_levels)] = 1,
    pool: Pool = "cpu",
    problems: Annotated[str, typer.Option(help="Which, by number: 1-20,33; by default all.", show_default=False)] = "",
    budget: Annotated[int, typer.Option(help="Candidates to spend on each problem.")] = 20,
    minutes_per_problem: Annotated[
        float, typer.Option(help="Stop planning for a problem after so long; cut it off a quarter later.")
    ] = 15.0,
    seed: Annotated[int, typer.Option(help="Seed of the planner's random choices.")] = 0,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="CSV file of the results; by default kernelbench/levelN-POOL.csv in KERNELSWARM_HOME.",
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
    synthesizer: Synthesizer = "playbook",
    model: Model = "",
    nats: Nats = "",
    workers: Workers = True,
    json: Json = False,
) -> int:
    """Run KernelBench, one session a problem: fast_p over eager and over the best compile, and a row for each problem.

    Ctrl-C and kill leave everything in place: the same command goes on where it was. What is done is kept, unless the
    problem's file, the pool, an option or a version has changed. A problem that is refused, crashes or takes too long
    is a row with its cause. docs/kernelbench.md describes the columns.
    """
    configuration = RunConfiguration(
        root=path,
        home=kernelswarm_home(),
        level=level,
        problems=problems,
        pool=pool,
        budget=budget,
        minutes_per_problem=minutes_per_problem,
        seed=seed,
        synthesizer=synthesizer,
        model=model,
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
        with open_watcher(quiet=json) as watcher:
            return await bench(configuration, watcher)

    configuration.check()
    try:
        report, status = run_interruptible(run), 0
    except KeyboardInterrupt:
        report, status = report_so_far(configuration), EXIT_INTERRUPTED
    if json:
        print_json(report)
    else:
        print_report(report)
    if status == EXIT_INTERRUPTED:
        err.print(f"{report.done} of {report.problems} problems are done: the same command goes on", markup=False)
    return status


EXAMPLES: dict[str, tuple[str, ...]] = {
    "kernelbench": (
        "git clone https://github.com/ScalingIntelligence/KernelBench",
        "kernelswarm bench kernelbench KernelBench --level 1 --pool h200",
        "kernelswarm bench kernelbench KernelBench --level 2 --problems 1-20,33 --budget 8 --out level2.csv",
        "kernelswarm bench kernelbench KernelBench --level 1 --pool h200 --at-once 4",
        "kernelswarm bench kernelbench KernelBench --json | jq '.fast_p[] | {against, p, share}'",
    ),
}

for _name, _command in {"kernelbench": kernelbench}.items():
    _examples = "\n\n".join(["[bold]Examples[/]", *map(escape, EXAMPLES[_name])])
    app.command(_name, epilog=_examples)(connecting(_command))
