"""``kernelswarm pools``: the hardware pools and what is known of them."""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ...hardware.platforms import detect
from ...hardware.pools.pool_files import find_pool, load_pools
from ...schemas import HardwareFacts, InputError, Pool, PoolError, Schema
from ...sessions.home import kernelswarm_home
from ..completion import pool_names
from ..display.terminal import err, out, plain_table, print_json, print_wide
from ..options import Json, Nats

EXAMPLES = (
    "kernelswarm pools",
    "kernelswarm pools h200    # one of them, and in full why this machine cannot serve it",
    "kernelswarm pools --refresh    # measure the peaks again",
    "kernelswarm pools --live --nats nats://10.0.0.1:4222    # who is there, and at work on what",
    "kernelswarm pools --live --watch",
)


SHORT = 48
"""Characters of the table's cell that says why a pool is not here."""


class PoolStatus(Schema, frozen=True, kw_only=True):
    """A pool, and its hardware if this machine can serve it."""

    pool: Pool
    hardware: HardwareFacts | None
    problem: str = ""
    """Why this machine cannot serve it."""


def pools(
    name: Annotated[str, typer.Argument(help="Only this pool.", autocompletion=pool_names, show_default=False)] = "",
    refresh: Annotated[bool, typer.Option(help="Measure the peaks again.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Show the workers of a cluster, or of a search here.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="With --live: again every second until Ctrl-C.")] = False,
    nats: Nats = "",
    json: Json = False,
) -> int:
    """List the hardware pools and what was measured of this machine; with --live, who serves them now."""
    home = kernelswarm_home()
    if live:
        from .pools_live import show_live  # roles are known by their agents: half a second of imports

        return show_live(home, nats, pool=name, json=json, watch=watch)
    if watch:
        raise InputError("--watch needs --live: what was measured of a machine does not change")
    statuses = []
    for pool in [find_pool(name, home)] if name else load_pools(home).values():
        # Peaks are kept; measuring takes seconds, and is done again while other work may have held them down.
        with err.status(f"looking at the hardware of pool {escape(pool.name)}; what is not known yet is measured"):
            statuses.append(_status(pool, home, refresh))
    if json:
        print_json(statuses)
    else:
        print_wide(_table(statuses))
        for status in statuses:
            if status.hardware is not None and status.hardware.accelerators:
                out.print(_accelerators(status.pool, status.hardware), highlight=False)
            elif status.problem and name:
                out.print(f"\n{name} is not here: {status.problem}", markup=False)
            elif status.problem:
                err.print(f"why not: kernelswarm pools {status.pool.name}", markup=False)
    return 0


def _status(pool: Pool, home: Path, refresh: bool) -> PoolStatus:
    try:
        return PoolStatus(pool=pool, hardware=detect(pool, home, refresh=refresh))
    except PoolError as error:
        return PoolStatus(pool=pool, hardware=None, problem=str(error))


def _table(statuses: list[PoolStatus]) -> Table:
    table = plain_table("pool", "platform", "languages", "device", "cores", "copy GB/s", "peak GFLOP/s")
    for status in statuses:
        pool, facts = status.pool, status.hardware
        measured = (
            (escape(_device(facts)), str(facts.cores), f"{facts.copy_gbps:.1f}", f"{facts.peak_gflops:.0f}")
            if facts
            else (escape(f"not here: {_short(status.problem)}"), "", "", "")
        )
        table.add_row(pool.name, pool.platform, ", ".join(pool.languages), *measured)
    return table


def _short(problem: str) -> str:
    """The beginning of a sentence, up to where it begins to explain."""
    begun = re.split(r" \(|[:;,] ", problem, maxsplit=1)[0]
    return begun if len(begun) <= SHORT else f"{begun[: SHORT - 1]}…"


def _device(facts: HardwareFacts) -> str:
    count = len(facts.accelerators)
    return f"{count} x {facts.device}" if count > 1 else facts.device


def _accelerators(pool: Pool, facts: HardwareFacts) -> str:
    """What the devices of a pool are and can do, in a sentence of figures."""
    first = facts.accelerators[0]
    size = f"{first.memory_bytes / 1e9:.0f} GB, {first.l2_bytes / 1e6:.0f} MB L2, {first.shared_bytes >> 10} KiB shared"
    limits = f"at most {first.max_clock_mhz} MHz and {first.power_limit_watts:.0f} W"
    versions = ", ".join(f"{name} {version}" for name, version in {**facts.versions, "torch": facts.torch}.items())
    peaks = ", ".join(f"{name} {speed / 1000:.0f}" for name, speed in facts.matmul_gflops.items())
    parts = (f"{first.target}, {first.multiprocessors} multiprocessors, {size}, {limits}", versions)
    return f"\n{pool.name}: {escape('; '.join(parts))}\n  matrix products, TFLOP/s: {peaks}"
