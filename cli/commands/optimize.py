"""``kernelswarm optimize``: search for a faster kernel."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...agents.synthesizer.authors import GENERATOR
from ...bus import asked_bus
from ...hardware.sources.problem_files import load_problem
from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.seed import AUTO
from ...sessions.session import INJECT, SearchOptions
from ..completion import session_ids
from ..options import (
    Against,
    Author,
    BaseUrl,
    Json,
    MaxCost,
    MaxTokens,
    Measure,
    Minutes,
    Model,
    Nats,
    OutFolder,
    Policy,
    Pool,
    ProblemFile,
    Target,
    Workers,
)
from ..reading import check_known
from ..searching import SearchConfiguration, check, search

EXAMPLES = (
    "kernelswarm optimize problems/mapid.py --pool cpu --budget 40",
    "kernelswarm optimize model.py --minutes 5 --target 2.0 --out faster/",
    "kernelswarm optimize model.py --author anthropic --model MODEL --budget 20",
    "kernelswarm optimize model.py --author openai --model NAME --base-url http://localhost:8000/v1",
    "kernelswarm optimize model.py --author anthropic --max-cost 5.00",
    "kernelswarm optimize model.py --author generator,anthropic:2    # a third of the nodes, and two thirds",
    "kernelswarm optimize model.py --seed-from auto                  # start from what won on like problems",
    "kernelswarm optimize model.py --against eager                   # a win is what beats eager PyTorch",
    "kernelswarm optimize model.py --pool h200 --measure call        # a win holds with the host's overhead, too",
    "kernelswarm optimize model.py --json | jq .speedup",
)


def optimize(
    problem: ProblemFile,
    pool: Pool = "cpu",
    budget: Annotated[int, typer.Option(help="Candidates to spend.")] = 40,
    minutes: Minutes = None,
    target: Target = None,
    against: Against = "best",
    measure: Measure = "device",
    seed: Annotated[int, typer.Option(help="Seed of the planner's random choices.")] = 0,
    out_dir: OutFolder = None,
    author: Author = GENERATOR,
    model: Model = "",
    base_url: BaseUrl = "",
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    policy: Policy = "greedy",
    seed_from: Annotated[
        str,
        typer.Option(
            help="Start from kernels that won before: auto for whatever is alike in the log, or sessions with commas "
            "between them.",
            autocompletion=session_ids,
            show_default=False,
        ),
    ] = "",
    inject: Annotated[
        float, typer.Option(help="Share of the expansions that a seed takes part in, with --seed-from.")
    ] = INJECT,
    nats: Nats = "",
    workers: Workers = True,
    json: Json = False,
) -> int:
    """Search for a faster kernel for a PyTorch operator, and write it down as a drop-in file."""
    options = SearchOptions(
        budget=budget,
        minutes=minutes,
        target=target,
        against=against,
        measure=measure,
        seed=seed,
        synthesizer=author,
        model=model,
        base_url=base_url,
        max_cost=max_cost,
        max_tokens=max_tokens,
        policy=policy,
        seed_from=tuple(filter(None, (name.strip() for name in seed_from.split(",")))),
        inject=inject,
    )
    if inject != INJECT and not options.seed_from:
        raise InputError(f"--inject {inject:g} needs --seed-from: auto, or the sessions whose kernels take part")
    check(options, nats=nats, workers=workers)
    home = kernelswarm_home()
    asyncio.run(_check_seeds(home, nats, options.seed_from))
    return search(SearchConfiguration(load_problem(problem), pool, options, home, nats, workers, out_dir, json))


async def _check_seeds(home: Path, nats: str, sources: Sequence[str]) -> None:
    """A slip costs a sentence, before anything is started. Errors: :func:`check_known`."""
    named = [source for source in sources if source != AUTO]
    if named:
        async with asked_bus(nats) as bus:
            for session in named:
                await check_known(home, session, bus)
