"""``kernelswarm sessions``: what was searched for, and what came of it."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ... import store
from ...bus import running
from ...schemas import StoreError
from ...sessions.home import kernelswarm_home
from ..display.summary import NAMES, speedup_cells
from ..display.terminal import err, plain_table, print_json, print_wide
from ..options import Json, Nats
from ..reading import asked_log, damage_of, nothing_in, warn_of

EXAMPLES = (
    "kernelswarm sessions",
    "kernelswarm sessions --limit 5 --json | jq '.[] | [.session, .speedup]'",
)


def sessions(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest first.")] = 20,
    nats: Nats = "",
    json: Json = False,
) -> int:
    """List sessions, newest first."""
    home = kernelswarm_home()

    async def read() -> "tuple[list[store.SessionRow], StoreError | None]":
        async with asked_log(home, nats) as bus:
            return await store.sessions(home, bus=bus, limit=limit), await damage_of(home, nats)

    rows, damage = asyncio.run(read())
    if json:
        print_json(rows)
    elif rows:
        idle = not nats and running(home) is None
        print_wide(_table(rows, idle=idle))
        waiting = next((row.session for row in rows if row.status == "open"), None) if idle else None
        if waiting:
            err.print(f"nobody works on what is open; to go on: kernelswarm resume {waiting}", markup=False)
    if not rows:
        err.print(nothing_in(home), markup=False)
    warn_of(damage)
    return 0


def _table(rows: "list[store.SessionRow]", *, idle: bool) -> Table:
    """``idle``: no server runs here, so nobody can be at work on a session that is open."""
    table = plain_table("session", "kind", "problem", "pool", "status", numbers=("candidates", "speedup"), no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("against", no_wrap=True)
    table.add_column("ordinary", justify="right", no_wrap=True)
    # Device and call are never one column without a name beside it.
    if has_accelerators := any(row.measure for row in rows):
        table.add_column("call", justify="right", no_wrap=True)
        table.add_column("measure", no_wrap=True)
    table.add_column("started (UTC)", no_wrap=True)
    for row in rows:
        reason = row.reason or ("cut off" if idle and row.status == "open" else "")
        status = f"{row.status} ({reason})" if reason else row.status
        table.add_row(
            *map(escape, (row.session, row.kind or "", row.problem, row.pool, status)),
            f"{row.candidates}/{row.budget}",
            *speedup_cells(row.speedup, row.speedup_low, row.speedup_high),
            escape(NAMES.get(row.against or "", row.against or "")),
            speedup_cells(row.ordinary_speedup, row.ordinary_low, row.ordinary_high)[0],
            *([speedup_cells(row.call_speedup, row.call_low, row.call_high)[0]] if has_accelerators else []),
            *([row.measure or ""] if has_accelerators else []),
            row.at[:16],
            style="green" if row.win else "",
        )
    return table
