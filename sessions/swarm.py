"""Workers of a pool in one process: started together, stopped together, present on the bus."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from ..agents.registry import ROLES, worker_counts
from ..agents.runtime import Histories, Worker
from ..bus import Bus
from ..bus.alive import running_beside
from ..hardware.device import Device
from ..schemas import HardwareFacts, Pool, WorkerPresence

PRESENCE_EVERY_S = 1.0
"""How often workers say that they are there."""


class Swarm:
    """The workers of one process."""

    def __init__(self, workers: list[Worker], pool: str, bus: Bus, device: str = "") -> None:
        self.workers = workers
        self._pool = pool
        self._device = device
        self._since_ns = time.time_ns()
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
                        device=self._device,
                        since_ns=self._since_ns,
                        busy=bool(worker.busy_with),
                        busy_with=worker.busy_with,
                        done=worker.done,
                        at_ns=time.time_ns(),
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
    answered: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> AsyncIterator[Swarm]:
    """Run workers of ``roles`` (counts by role, :data:`.registry.AS_FITS` among them) for ``pool`` meanwhile.

    ``device`` is used if given, else one is opened if a role needs it. With ``session`` they serve that session alone.
    ``answered`` are ids of events by the role that has answered them before.
    """
    async with AsyncExitStack() as stack:
        devices = [device] if device is not None else []
        if not devices:
            # One for each accelerator; what needs none shares the first.
            count = max(1, len(hardware.accelerators))
            devices = [Device(pool, hardware, home, accelerator=n, background=True) for n in range(count)]
            if any(ROLES[role].needs_device for role in roles):
                for opened in devices:
                    await stack.enter_async_context(opened)
        histories = Histories(bus, home)
        workers = []
        for role, count in worker_counts(roles, hardware, len(devices)).items():
            for number in range(1, count + 1):
                agent = ROLES[role].make(devices[(number - 1) % len(devices)], bus)
                stack.push_async_callback(agent.close)
                done = answered.get(role, ())
                workers.append(Worker(agent, bus, pool.name, histories, number=number, session=session, answered=done))
                stack.callback(bus.leave, workers[-1].name)
        swarm = Swarm(workers, pool.name, bus, hardware.device)
        async with running_beside(swarm.run(), "swarm"):
            yield swarm
