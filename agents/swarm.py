"""Workers of a pool in one process: started together, stopped together, present on the bus."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ..bus import Bus
from ..bus.alive import running_beside
from ..hardware.device import Device
from ..schemas import HardwareFacts, Pool, WorkerPresence
from .registry import ROLES
from .runtime import Histories, Worker

PRESENCE_EVERY_S = 1.0
"""How often workers say that they are there."""


class Swarm:
    """The workers of one process."""

    def __init__(self, workers: list[Worker], pool: str, bus: Bus) -> None:
        self.workers = workers
        self._pool = pool
        self._bus = bus

    async def run(self) -> None:
        """Serve until cancelled. A worker that breaks ends the whole: a ring with a gap only looks alive."""
        async with asyncio.TaskGroup() as group:
            for worker in self.workers:
                group.create_task(worker.run(), name=worker.name)
            group.create_task(self._presence(), name="presence")

    def doing(self) -> dict[str, str]:
        """What each busy worker works on, by worker name."""
        return {worker.name: worker.busy_with for worker in self.workers if worker.busy_with}

    async def _presence(self) -> None:
        host, pid = socket.gethostname(), os.getpid()
        while True:
            for worker in self.workers:
                await self._bus.heartbeat(
                    WorkerPresence(
                        worker=worker.name,
                        role=worker.agent.role,
                        pool=self._pool,
                        host=host,
                        pid=pid,
                        busy=bool(worker.busy_with),
                    )
                )
            await asyncio.sleep(PRESENCE_EVERY_S)


@asynccontextmanager
async def serving(
    bus: Bus,
    pool: Pool,
    hardware: HardwareFacts,
    home: Path,
    roles: Mapping[str, int],
    *,
    device: Device | None = None,
    session: str | None = None,
) -> AsyncIterator[Swarm]:
    """Run workers of ``roles`` (counts by role) for ``pool`` while the context is open.

    ``device`` is used if given, else one is opened if a role needs it. With ``session`` they serve that session alone.
    """
    async with AsyncExitStack() as stack:
        if device is None:
            device = Device(pool, hardware, home)
            if any(ROLES[role].needs_device for role in roles):
                await stack.enter_async_context(device)
        histories = Histories(bus)
        workers = []
        for role, count in roles.items():
            for number in range(1, count + 1):
                agent = ROLES[role].make(device, bus)
                stack.push_async_callback(agent.close)
                workers.append(Worker(agent, bus, pool.name, histories, number=number, session=session))
                stack.callback(bus.leave, workers[-1].name)
        swarm = Swarm(workers, pool.name, bus)
        async with running_beside(swarm.run(), "swarm"):
            yield swarm
