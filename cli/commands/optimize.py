"""``kernelswarm optimize``: search for a faster kernel."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...bus import asked_bus
from ...hardware.sources.problem_files import load_problem
from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.search_options import INJECT, SearchChoices, SearchOptions, defaults, given, hints_of
from ...sessions.seed import AUTO
from ..options import Json, Nats, OutFolder, Pool, ProblemFile, Workers
from ..reading import check_known
from ..search_parameters import taking
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


@taking(hints_of(SearchChoices), defaults())
def optimize(
    problem: ProblemFile,
    pool: Pool = "cpu",
    out_dir: OutFolder = None,
    nats: Nats = "",
    workers: Workers = True,
    json: Json = False,
    **choices: Any,
) -> int:
    """Search for a faster kernel for a PyTorch operator, and write it down as a drop-in file."""
    options = SearchOptions(**given(choices))
    if options.inject != INJECT and not options.seed_from:
        raise InputError(
            f"--inject {options.inject:g} needs --seed-from: auto, or the sessions whose kernels take part"
        )
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
