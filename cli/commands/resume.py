"""``kernelswarm resume``: go on with a session that was cut off."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from ...agents.registry import ALL_ROLES
from ...bus import asked_bus
from ...graph.tasks import INTERRUPTED
from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ...sessions.results import SearchResult
from ...sessions.resume import CLOSING_ROLES, resuming
from ...store import UnknownSession
from ..display.live import open_display
from ..following import follow
from ..options import Json, Nats, SessionId
from ..reading import unknown_session
from ..report import keep_folder, kept_folder, make_folder, write_result
from ..searching import exit_status, print_result

EXAMPLES = (
    "kernelswarm resume mapid-7kq2m",
    "kernelswarm resume mapid-7kq2m --json | jq .speedup",
    "kernelswarm resume mapid-7kq2m --close    # its device is gone: the best so far and its skill stay",
    "kernelswarm sql \"SELECT session FROM sessions WHERE status = 'open'\"    # what could be resumed",
)


def resume(
    session: SessionId,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for best.py and result.json; by default the one that the search was given, or "
            "sessions/SESSION in KERNELSWARM_HOME.",
            show_default=False,
        ),
    ] = None,
    nats: Nats = "",
    workers: Annotated[bool, typer.Option(help="Run workers here; --no-workers leaves the work to a swarm.")] = True,
    close: Annotated[
        bool,
        typer.Option(
            "--close",
            help="Close it with what it has, and distil its skill. Nothing is run: its device need not be here.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Go on with an open session where it was: what was done is kept, what was under way is done again."""
    if not workers and not nats:
        raise InputError("--no-workers needs --nats URL: without a cluster nobody else could do the work")
    home = kernelswarm_home()
    folder = out_dir or kept_folder(home, session)
    if folder is not None:
        make_folder(folder)

    async def run(interrupts: Interrupts) -> SearchResult:
        roles = (CLOSING_ROLES if close else ALL_ROLES) if workers else {}
        try:
            async with AsyncExitStack() as stack:
                with open_display(quiet=json) as display:
                    search = await stack.enter_async_context(
                        resuming(session, home=home, nats=nats, roles=roles, on_notice=display.notice)
                    )
                    if out_dir is not None:
                        keep_folder(home, session, out_dir)
                    if close:
                        await search.stop(INTERRUPTED)
                    await follow(search, display, interrupts)
                    result = await asyncio.to_thread(write_result, search, folder or home / "sessions" / session)
                print_result(result, json=json)
                return result
        except UnknownSession as error:
            async with asked_bus(nats) as bus:
                raise await unknown_session(home, session, bus) from error

    result = run_interruptible(run)
    return 0 if close and result.reason == INTERRUPTED else exit_status(result)
