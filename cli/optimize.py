"""``kernelswarm optimize``: search for a faster kernel."""

from pathlib import Path
from typing import Annotated

import typer

from ..agents.home import kernelswarm_home
from ..agents.registry import ALL_ROLES
from ..agents.search import searching
from ..agents.session import SearchOptions, SearchResult
from ..hardware.problem_files import load_problem
from ..schemas import InputError
from .following import follow
from .interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from .live import open_display
from .options import Json, Nats, Pool, ProblemFile
from .report import make_folder, write_result
from .summary import print_summary
from .terminal import print_json

EXAMPLES = (
    "kernelswarm optimize problems/mapid.py --pool cpu --budget 40",
    "kernelswarm optimize model.py --minutes 5 --target 2.0 --out faster/",
    "kernelswarm optimize model.py --synthesizer anthropic --model MODEL --budget 20",
    "kernelswarm optimize model.py --json | jq .speedup",
)


def optimize(
    problem: ProblemFile,
    pool: Pool = "cpu",
    budget: Annotated[int, typer.Option(help="Candidates to spend.")] = 40,
    minutes: Annotated[float | None, typer.Option(help="Stop planning after so many minutes.")] = None,
    target: Annotated[float | None, typer.Option(help="Stop at this speedup over the best baseline.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the planner's random choices.")] = 0,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for best.py and result.json; by default sessions/SESSION in KERNELSWARM_HOME.",
            show_default=False,
        ),
    ] = None,
    synthesizer: Annotated[str, typer.Option(help="Who writes candidates: playbook or anthropic.")] = "playbook",
    model: Annotated[str, typer.Option(help="Model of a language-model synthesizer.", show_default=False)] = "",
    policy: Annotated[str, typer.Option(help="How the search graph grows: greedy.")] = "greedy",
    nats: Nats = "",
    workers: Annotated[bool, typer.Option(help="Run workers here; --no-workers leaves the work to a swarm.")] = True,
    json: Json = False,
) -> int:
    """Search for a faster kernel for a PyTorch operator, and write it down as a drop-in file."""
    options = SearchOptions(
        budget=budget,
        minutes=minutes,
        target=target,
        seed=seed,
        synthesizer=synthesizer,
        model=model,
        policy=policy,
    )
    options.check()
    if not workers and not nats:
        raise InputError("--no-workers needs --nats URL: without a cluster nobody else could do the work")
    home = kernelswarm_home()
    loaded = load_problem(problem)
    if out_dir is not None:
        make_folder(out_dir)

    async def run(interrupts: Interrupts) -> SearchResult:
        with open_display(quiet=json) as display:
            roles = ALL_ROLES if workers else {}
            async with searching(
                loaded, pool, options, home=home, nats=nats, roles=roles, on_notice=display.notice
            ) as search:
                await follow(search, display, interrupts)
                return write_result(search.result(), out_dir or home / "sessions" / search.session)

    result = run_interruptible(run)
    if json:
        print_json(result)
    else:
        print_summary(result)
    return EXIT_INTERRUPTED if result.reason == "interrupted" else 0
