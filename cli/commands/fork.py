"""``kernelswarm fork``: go on from a place in another session."""

import asyncio
from typing import Annotated

import typer

from ...agents.synthesizer.authors import AUTHOR_NAMES
from ...bus import asked_bus
from ...sessions.fork import ForkPoint, fork_point
from ...sessions.home import kernelswarm_home
from ..completion import pool_names
from ..options import BaseUrl, Json, MaxCost, MaxTokens, Minutes, Model, Nats, OutFolder, SessionId, Target, Workers
from ..reading import event_of, recorded_session
from ..searching import SearchConfiguration, check, search

EXAMPLES = (
    "kernelswarm fork mapid-7kq2m --node n012                          # go on from n012",
    "kernelswarm fork mapid-7kq2m --node n012 --author anthropic --model MODEL --budget 20",
    "kernelswarm fork mapid-7kq2m --node n012 --pool other             # on other hardware: measured anew there",
    "kernelswarm fork mapid-7kq2m --at 1f4c09                          # as of an event",
)


def fork(
    session: SessionId,
    node: Annotated[
        str, typer.Option("--node", "-n", help="Go on from this node and its ancestors.", show_default=False)
    ] = "",
    at: Annotated[
        str,
        typer.Option(
            "--at",
            help="Know what was known at this event: its id, the beginning of it, or its seq. "
            "By default the diagnosis of --node.",
            show_default=False,
        ),
    ] = "",
    pool: Annotated[
        str,
        typer.Option("--pool", "-p", help="By default the session's.", autocompletion=pool_names, show_default=False),
    ] = "",
    budget: Annotated[
        int | None, typer.Option(help="Candidates of its own to spend; by default as many as the session.")
    ] = None,
    minutes: Minutes = None,
    target: Target = None,
    against: Annotated[
        str,
        typer.Option(help="What a win is measured against; by default as in the session.", show_default=False),
    ] = "",
    measure: Annotated[
        str,
        typer.Option(
            help="Which number makes a win on an accelerator, device or call; by default as in the session.",
            show_default=False,
        ),
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Seed of the planner's random choices; by default the session's.")
    ] = None,
    out_dir: OutFolder = None,
    author: Annotated[
        str,
        typer.Option(
            "--author",
            "--synthesizer",
            help="Who writes candidates, as in optimize; by default as in the session.",
            show_default=False,
            autocompletion=lambda: list(AUTHOR_NAMES),
        ),
    ] = "",
    model: Model = "",
    base_url: BaseUrl = "",
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    policy: Annotated[
        str, typer.Option(help="How the search graph grows; by default as in the session.", show_default=False)
    ] = "",
    nats: Nats = "",
    workers: Workers = True,
    json: Json = False,
) -> int:
    """Open a new session that goes on from a node of another one, with another budget, policy, model or pool.

    Nothing is copied: the new session names where it came from and reads what was known there. The kernel that it goes
    on from is measured again first. Nodes are numbered on from the highest number of that past: after n004 its first
    one is n005, so that a name means one node.
    """
    home = kernelswarm_home()

    async def find() -> ForkPoint:
        async with asked_bus(nats) as bus:
            past = await recorded_session(home, session, bus)
            return fork_point(past, node, await event_of(past, at, home, bus) if at else "")

    point = asyncio.run(find())
    options = point.options(
        budget=budget,
        minutes=minutes,
        target=target,
        against=against,
        measure=measure,
        seed=seed,
        policy=policy,
        synthesizer=author,
        model=model,
        base_url=base_url,
        max_cost=max_cost,
        max_tokens=max_tokens,
    )
    check(options, nats=nats, workers=workers)
    return search(
        SearchConfiguration(
            point.opened.problem,
            pool or point.opened.pool.name,
            options,
            home,
            nats,
            workers,
            out_dir,
            json,
            point.origin,
        )
    )
