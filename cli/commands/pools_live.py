"""Who is there, as a table: the workers of every pool of a cluster (``kernelswarm pools --live``)."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...bus import Bus, running
from ...schemas import WorkerPresence
from ...sessions.interrupts import Interrupts, run_interruptible
from ...sessions.worker_availability import missing_roles
from ..display.terminal import err, is_screen, out, plain_table, print_json, print_wide

EVERY_S = 1.0
"""How often ``--watch`` asks."""

LATE_S = 5.0
"""After so long without a heartbeat a worker that still answers is shown as late."""

NOBODY = "nobody is there"
"""In the table's place where it has no rows."""

COLUMNS = ("pool", "role", "worker", "host", "device", "since", "busy with", "done", "heartbeat")


def show_live(home: Path, nats: str, *, pool: str, json: bool, watch: bool) -> int:
    """Print who is there, in ``pool`` or (if that is empty) anywhere; with ``watch`` again and again until Ctrl-C."""

    async def run(interrupts: Interrupts) -> None:
        async with _bus(home, nats) as bus:
            if watch and bus is not None:
                await _watch(bus, pool, interrupts, json=json)
                return
            workers = await _there(bus, pool)
            if json:
                print_json(workers)
                return
            print_wide(live_table(workers, time.time_ns()))
            if not workers:
                out.print(NOBODY, markup=False)
            for line in absent(workers) if workers else [_way_out(bus, pool)]:
                err.print(line, markup=False)

    run_interruptible(run)
    return 0


def live_table(workers: Iterable[WorkerPresence], now_ns: int) -> Table:
    """One row for each worker, by pool, role and name."""
    table = plain_table()
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("since", "done", "heartbeat") else "left")
    for worker in sorted(workers, key=lambda presence: (presence.pool, presence.role, presence.worker)):
        silent = (now_ns - worker.at_ns) / 1e9
        table.add_row(
            *map(Text, (worker.pool, worker.role, worker.worker, worker.host, worker.device)),
            Text(_ago(now_ns - worker.since_ns) if worker.since_ns else ""),
            Text(worker.busy_with or ("busy" if worker.busy else "")),
            Text(str(worker.done)),
            Text(_ago(now_ns - worker.at_ns) if worker.at_ns else "", style="red" if silent > LATE_S else ""),
        )
    return table


def absent(workers: Iterable[WorkerPresence]) -> list[str]:
    """A line for each pool that lacks a role; such a pool's sessions wait."""
    pools = defaultdict(list)
    for worker in workers:
        pools[worker.pool].append(worker)
    missing = {pool: missing_roles(there, pool) for pool, there in sorted(pools.items())}
    return [f"pool {pool} has no {', no '.join(roles)}: its sessions wait" for pool, roles in missing.items() if roles]


@asynccontextmanager
async def _bus(home: Path, nats: str) -> AsyncIterator[Bus | None]:
    url = nats or running(home)
    if not url:
        yield None
        return
    async with await Bus.connect(url, name="kernelswarm pools") as bus:
        yield bus


async def _there(bus: Bus | None, pool: str) -> list[WorkerPresence]:
    workers = await bus.workers() if bus is not None else []
    return [worker for worker in workers if pool in ("", worker.pool)]


async def _watch(bus: Bus, pool: str, interrupts: Interrupts, *, json: bool) -> None:
    stopped = asyncio.Event()
    with interrupts.politely(stopped.set):
        if json or not is_screen():
            while not stopped.is_set():
                _print(await _there(bus, pool), json=json)
                await _pause(stopped)
        else:
            with Live(console=err, auto_refresh=False, transient=True) as live:
                while not stopped.is_set():
                    live.update(_dashboard(await _there(bus, pool)), refresh=True)
                    await _pause(stopped)


def _print(workers: list[WorkerPresence], *, json: bool) -> None:
    if json:
        print_json(workers)
        return
    busy = Counter(worker.pool for worker in workers if worker.busy)
    there = Counter(worker.pool for worker in workers)
    counts = [f"{pool}: {count} workers, {busy[pool]} busy" for pool, count in sorted(there.items())]
    out.print("; ".join([*counts, *absent(workers)]) or NOBODY, markup=False)


def _dashboard(workers: list[WorkerPresence]) -> RenderableType:
    if not workers:
        return Text(NOBODY, style="dim")
    return Group(live_table(workers, time.time_ns()), *(Text(line, style="yellow") for line in absent(workers)))


async def _pause(stopped: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(EVERY_S):
            await stopped.wait()
    except TimeoutError:
        pass


def _way_out(bus: Bus | None, pool: str) -> str:
    if bus is None:
        return "no search is running on this machine; name a cluster with --nats URL to see its workers"
    option = f" --pool {pool}" if pool else ""
    return f"no workers at {bus.url}: `kernelswarm swarm{option} --nats {bus.url}` joins some"


def _ago(nanoseconds: int) -> str:
    seconds = max(0, nanoseconds // 1_000_000_000)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
