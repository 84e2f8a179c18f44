"""``kernelswarm swarm``: workers that join a pool."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from ...agents.registry import ALL_ROLES, parse_roles
from ...hardware.platforms import detect, known
from ...hardware.pools.pool_files import find_pool
from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ...sessions.swarm import serving
from ..connecting import joined
from ..display.terminal import err
from ..options import Cluster, Pool

EXAMPLES = (
    "kernelswarm swarm --pool cpu --roles compiler=2,verifier=1,profiler=1 --nats nats://10.0.0.1:4222",
    "kernelswarm swarm --pool cpu --nats nats://10.0.0.1:4222    # every role",
)


def swarm(
    pool: Pool = "cpu",
    roles: Annotated[
        str,
        typer.Option(
            help=f"Roles and how many workers of each, as in compiler=2,verifier=1; of {', '.join(ALL_ROLES)}. "
            "By default every role, with as many compilers as the machine has use for.",
            show_default=False,
        ),
    ] = "",
    nats: Cluster = "",
) -> int:
    """Join workers to a pool; they serve every session of the pool until Ctrl-C, which hands their work back."""
    if not nats:
        raise InputError("swarm needs --nats URL: without a cluster there is nobody to work for")
    counts = parse_roles(roles) if roles else dict(ALL_ROLES)
    home = kernelswarm_home()
    hardware_pool = find_pool(pool, home)

    async def run(interrupts: Interrupts) -> None:
        stopped = asyncio.Event()
        # Only these two run candidates: the others serve a pool whose accelerator this machine lacks.
        look = detect if counts.keys() & {"verifier", "profiler"} else known
        async with AsyncExitStack() as stack:
            # First: measuring takes seconds, and whether the cluster lets us in is known at once.
            bus = await stack.enter_async_context(await joined(nats, name="kernelswarm swarm"))
            hardware = await asyncio.to_thread(look, hardware_pool, home)
            serves = await stack.enter_async_context(serving(bus, hardware_pool, hardware, home, counts))
            workers = Counter(worker.agent.role for worker in serves.workers)
            summary = ", ".join(f"{role}={count}" for role, count in workers.items())
            err.print(f"serving pool {hardware_pool.name} with {summary} at {bus.url}; Ctrl-C leaves", markup=False)
            with interrupts.politely(stopped.set):
                await stopped.wait()
        err.print("left; unfinished work goes to other workers", markup=False)

    run_interruptible(run)
    return 0
