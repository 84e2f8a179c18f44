"""What the sessions of one problem on one pool stand on: the hardware, a validated problem, a bus."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from ..bus.options import servers
from ..hardware.device import Device
from ..hardware.platforms import detect
from ..schemas import HardwareFacts, Pool, Problem, ProblemFacts
from ..store import check_usable
from .connection import Joined, joined_bus
from .validation import validated


class SearchContext(NamedTuple):
    """What the sessions of one problem on one pool stand on, made once however many are opened."""

    problem: Problem
    facts: ProblemFacts
    pool: Pool
    hardware: HardwareFacts
    device: Device
    """Holds the reference, its cases and the baselines."""
    joined: Joined
    home: Path
    nats: str
    """URL of the cluster; empty for a server of our own."""


@asynccontextmanager
async def search_context(
    problem: Problem,
    pool: Pool,
    *,
    home: Path,
    nats: str = "",
    profilers: bool = True,
    on_notice: Callable[[str], None] = lambda _: None,
    minutes: float | None = None,
    began: float | None = None,
) -> AsyncIterator[SearchContext]:
    """Look at the hardware, validate ``problem`` and join a bus: what comes before a session.

    Without ``profilers`` none is started here: a session that uses them starts them itself. Validation ends with the
    ``minutes`` of that session, which began at ``began`` on the monotonic clock.

    Raises:
        InputError: the problem or the pool cannot be used.
        StoreError: the log of ``home`` cannot be used.
        BusError: the bus cannot be reached.
    """
    if nats:
        servers(nats)  # before the minutes that validation takes
    else:
        await check_usable(home)
    on_notice(f"looking at the hardware of pool {pool.name}")
    hardware = await asyncio.to_thread(detect, pool, home)
    async with Device(pool, hardware, home, background=True) as device:
        if profilers:
            device.prepare_profilers()
        facts = await validated(device, problem, minutes, began, on_notice)
        on_notice("starting the bus")
        async with joined_bus(home, nats, on_notice) as joined:
            yield SearchContext(problem, facts, pool, hardware, device, joined, home, nats)
