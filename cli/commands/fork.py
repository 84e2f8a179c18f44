"""``kernelswarm fork``: go on from a place in another session."""

import asyncio
from typing import Annotated, Any

import typer

from ...bus import asked_bus
from ...sessions.fork import ForkPoint, fork_point
from ...sessions.home import kernelswarm_home
from ...sessions.search_options import ForkChoices, hints_of
from ..completion import pool_names
from ..options import Json, Nats, OutFolder, SessionId, Workers
from ..reading import event_of, recorded_session
from ..search_parameters import taking
from ..searching import SearchConfiguration, check, search

EXAMPLES = (
    "kernelswarm fork mapid-7kq2m --node n012                          # go on from n012",
    "kernelswarm fork mapid-7kq2m --node n012 --author anthropic --model MODEL --budget 20",
    "kernelswarm fork mapid-7kq2m --node n012 --pool other             # on other hardware: measured anew there",
    "kernelswarm fork mapid-7kq2m --at 1f4c09                          # as of an event",
)


@taking(hints_of(ForkChoices), {})
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
    out_dir: OutFolder = None,
    nats: Nats = "",
    workers: Workers = True,
    json: Json = False,
    **choices: Any,
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
    options = point.options(**choices)
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
