"""Sessions that share a device and a bus: to start both takes longer than a short session."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.schemas import Problem, ProblemFacts
from kernelswarm.sessions.connection import joined_bus
from kernelswarm.sessions.search_context import SearchContext

SearchContextOf = Callable[[Problem], Awaitable[SearchContext]]


@asynccontextmanager
async def shared(home: Path, pool_name: str) -> AsyncIterator[SearchContextOf]:
    """What sessions of any problem stand on, on one pool; a problem is validated once."""
    pool = find_pool(pool_name, home)
    hardware = await asyncio.to_thread(detect, pool, home)
    facts: dict[str, ProblemFacts] = {}
    async with Device(pool, hardware, home) as device, joined_bus(home) as joined:

        async def of(problem: Problem) -> SearchContext:
            if problem.sha256 not in facts:
                facts[problem.sha256] = await device.validate_problem(problem)
            return SearchContext(problem, facts[problem.sha256], pool, hardware, device, joined, home, "")

        yield of
