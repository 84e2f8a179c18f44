"""How many nodes a search keeps under way: so many that whoever times never waits, so few that results still lead it.

The number goes into the session's first event (``policy_options``, ``width``): the planner decides from that, and a
replay does too, whoever serves it then.
"""

from collections.abc import Mapping
from dataclasses import replace

from ..agents.planner.machine import WIDTH
from ..agents.registry import worker_counts
from ..agents.synthesizer.authors import asks_a_model, author_count, author_names
from ..bus import Bus
from ..schemas import OUTSIDE, HardwareFacts
from .search_options import SearchOptions
from .worker_availability import count_of

GENERATIONS = 4
"""Nodes under way know nothing of each other: one may be the child of a child this often within the budget, at least
(without the drafts, which come first and are as blind)."""


def width_for(budget: int, compilers: int) -> int:
    """Nodes under way at once where ``compilers`` work.

    A compilation takes several times as long as timing what came of it. With a node for each compiler none of these
    is idle, and as long as there are enough of them (default numbers: :func:`.registry.worker_counts`) neither is the
    one that times; more would only wait in line with less to go by.
    """
    return max(WIDTH, min(compilers, budget // GENERATIONS))


async def kept_busy(
    options: SearchOptions, bus: Bus, pool: str, roles: Mapping[str, int], hardware: HardwareFacts, *, alone: bool
) -> SearchOptions:
    """``options`` with a width for the workers that are there, unless somebody chose one or a model is asked.

    A model's answers cost more than the time they take: there, what was learnt before asking again counts most.
    ``alone`` says that ``roles`` are all the workers there are; else the others of the pool are counted.

    Raises:
        BusError: the server is away.
    """
    if OUTSIDE in author_names(options.synthesizer):
        # Every task waits for somebody: what was learnt from the last one counts most.
        width = WIDTH * author_count(options.synthesizer)
        return replace(options, policy_options={"drafts": width, "width": width, **options.policy_options})
    if "width" in options.policy_options:
        return options
    if asks_a_model(options.synthesizer):
        # Of several authors each has its nodes under way: none waits for the slowest.
        return _with_width(options, WIDTH * author_count(options.synthesizer))
    compilers = worker_counts(roles, hardware).get("compiler", 0)
    if not alone:
        compilers = max(compilers, await count_of("compiler", bus, pool))
    width = width_for(options.budget, compilers)
    return _with_width(options, width)


def _with_width(options: SearchOptions, width: int) -> SearchOptions:
    if width == WIDTH:
        return options
    return replace(options, policy_options={**options.policy_options, "width": width})
