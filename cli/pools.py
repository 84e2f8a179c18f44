"""``kernelswarm pools``: the hardware pools and what is known of them."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..agents.home import kernelswarm_home
from ..hardware.platforms import detect
from ..hardware.pool_files import load_pools
from ..schemas import HardwareFacts, Pool, PoolError, Schema
from .options import Json
from .terminal import print_json, print_wide

EXAMPLES = ("kernelswarm pools", "kernelswarm pools --refresh    # measure the peaks again")


class PoolStatus(Schema, frozen=True, kw_only=True):
    """A pool, and its hardware if this machine can serve it."""

    pool: Pool
    hardware: HardwareFacts | None
    problem: str = ""
    """Why this machine cannot serve it."""


def pools(
    refresh: Annotated[bool, typer.Option(help="Measure the peaks again.")] = False,
    json: Json = False,
) -> int:
    """List the hardware pools and what was measured of this machine."""
    home = kernelswarm_home()
    found = []
    for pool in load_pools(home).values():
        try:
            found.append(PoolStatus(pool=pool, hardware=detect(pool, home, refresh=refresh)))
        except PoolError as error:
            found.append(PoolStatus(pool=pool, hardware=None, problem=str(error)))
    if json:
        print_json(found)
    else:
        print_wide(_table(found))
    return 0


def _table(found: list[PoolStatus]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("pool", "platform", "languages", "device", "cores", "copy GB/s", "peak GFLOP/s"):
        table.add_column(column)
    for status in found:
        pool, facts = status.pool, status.hardware
        measured = (
            (escape(facts.device), str(facts.cores), f"{facts.copy_gbps:.1f}", f"{facts.peak_gflops:.0f}")
            if facts
            else (escape(f"not here: {status.problem}"), "", "", "")
        )
        table.add_row(pool.name, pool.platform, ", ".join(pool.languages), *measured)
    return table
