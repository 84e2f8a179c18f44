"""A small fleet of real processes on one machine, each with a connection of its own that can be cut."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from kernelswarm.bus import Bus
from kernelswarm.bus.server import Server
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.schemas import BusError, HardwareFacts, Pool, ProblemFacts, encode

from .disk import Disk
from .leftover_processes import children
from .plans import RoundPlan
from .problem import POOL, POOL_FILE, PROBLEM, candidate
from .process import Process
from .run_configuration import RunConfiguration
from .wire import Wire

ACK_WAIT_S = 3
"""So soon does the work of a silent worker go to another one: ten times sooner than by default, for quick rounds."""

LOOK_S = 1.0
PATIENCE_S = 120.0
START_S = 120.0

WORKERS = {
    "agents-1": "planner,synthesizer,analyst,distiller",
    "agents-2": "planner,synthesizer,analyst,distiller",
    "hands-1": "compiler,verifier,profiler",
    "hands-2": "compiler,verifier,profiler",
}


class Fleet:
    """Use :func:`open_fleet`."""

    def __init__(self, home: Path, server: Server, disk: Disk) -> None:
        self.home = home
        self.server = server
        self.server_turn = asyncio.Lock()
        self.disk = disk
        self.wires: dict[str, Wire] = {}
        self.processes: dict[str, Process] = {}
        self.before = frozenset[int]()
        """Children that this process has before the fleet's first one: none of theirs is left behind by a round."""
        self.bus: Bus
        self.pool: Pool
        self.hardware: HardwareFacts
        self.facts: ProblemFacts

    @property
    def recorder(self) -> Process:
        """The process that keeps the log."""
        return self.processes["recorder"]

    @property
    def submitter(self) -> Process:
        """The process of the round's user."""
        return self.processes["submitter"]

    def pids(self) -> set[int]:
        """Process ids that belong here."""
        return {self.server.pid, *self.before, *(process.pid for process in self.processes.values())}

    def some(self, prefix: str, draw: int) -> Process:
        """One of the processes whose names begin so."""
        processes = [process for name, process in sorted(self.processes.items()) if name.startswith(prefix)]
        return processes[draw % len(processes)]

    async def validate_problem(self) -> None:
        """Look at the machine and at the problem once, for every round."""
        (self.home / "pools").mkdir(parents=True, exist_ok=True)
        (self.home / "logs").mkdir(exist_ok=True)
        (self.home / "pools" / f"{POOL}.toml").write_text(POOL_FILE)
        self.pool = find_pool(POOL, self.home)
        self.hardware = await asyncio.to_thread(detect, self.pool, self.home)
        async with Device(self.pool, self.hardware, self.home) as device:
            self.facts = await device.validate_problem(PROBLEM)
        # Only now: a fork server that tests share may have started for that.
        self.before = frozenset(children(os.getpid()))

    async def add(self, name: str, *command: str, at_the_end: AsyncExitStack) -> Process:
        """Put a process beside the others, with a wire of its own to the server."""
        wire = self.wires[name] = Wire(self.server.url)
        await wire.open()
        at_the_end.push_async_callback(wire.close)
        environment = {
            **os.environ,
            "KERNELSWARM_HOME": str(self.home),
            "KERNELSWARM_NATS": wire.url,
            "KERNELSWARM_NATS_ACK_WAIT": str(ACK_WAIT_S),
        }
        process = self.processes[name] = Process(name, command, environment, self.home / "logs" / f"{name}.log")
        at_the_end.push_async_callback(process.stop)
        return process

    async def submit(self, plan: RoundPlan) -> None:
        """Start the process of a user who opens the round's session."""
        self.configure(plan)
        await self.submitter.start()

    def configure(self, plan: RoundPlan) -> Path:
        """Write down what the round's user searches."""
        configuration = RunConfiguration(
            session=plan.session,
            facts=self.facts,
            pool=self.pool,
            hardware=self.hardware,
            candidates=tuple(candidate(name, number) for number, name in enumerate(plan.candidates, 1)),
            seed=plan.number,
        )
        path = self.home / "configuration.json"
        path.write_bytes(encode(configuration))
        return path

    @asynccontextmanager
    async def storing(self) -> AsyncIterator[None]:
        """Meanwhile, start the server again whenever its disk has been full: until then it stores nothing more.

        As its owner does (:mod:`..bus.local`). Its log lies on the same disk, so the line that tells may come late.

        Raises:
            BusError: it does not start.
        """
        watching = asyncio.create_task(self._keep_storing())
        try:
            yield
        finally:
            async with self.server_turn:  # not in the middle of a start
                watching.cancel()
            await asyncio.wait([watching])
            if not watching.cancelled():
                watching.result()

    async def _keep_storing(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            async with self.server_turn:
                if await asyncio.to_thread(self.server.choked):
                    await self.server.stop()
                    await self.server.start()

    async def until_served(self) -> None:
        """Wait until every role has a worker.

        Raises:
            BusError: they did not come.
        """
        roles = {role for named in WORKERS.values() for role in named.split(",")}
        async with asyncio.timeout(START_S):
            while roles - {worker.role for worker in await self.bus.workers(0.3)}:
                ended = [name for name in WORKERS if not self.processes[name].alive]
                if ended:
                    raise BusError(f"{ended[0]} ended at once: see {self.home / 'logs'}")


@asynccontextmanager
async def open_fleet(home: Path) -> AsyncIterator[Fleet]:
    """A fleet whose data lies under ``home``, all of it running; nothing of it is left afterwards.

    Raises:
        InputError: the home cannot be used, or there is no nats-server.
        BusError: something does not start.
    """
    async with AsyncExitStack() as stack:
        folder = home / "nats"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk = stack.enter_context(Disk.under(folder))
        server = Server(folder, stack.enter_context(_store_lock(folder / "store.lock")))
        await server.start()
        stack.push_async_callback(server.stop)
        fleet = Fleet(home, server, disk)
        await fleet.validate_problem()
        fleet.bus = await stack.enter_async_context(await Bus.connect(server.url, name="faults", patience=PATIENCE_S))
        cli = ("-m", "kernelswarm.cli")
        await fleet.add("recorder", *cli, "record", at_the_end=stack)
        for name, roles in WORKERS.items():
            await fleet.add(name, *cli, "swarm", "--pool", POOL, "--roles", roles, at_the_end=stack)
        for process in fleet.processes.values():
            await process.start()
        await fleet.add(
            "submitter", "-m", f"{__package__}.submitter", str(home / "configuration.json"), at_the_end=stack
        )
        await fleet.until_served()
        yield fleet


@contextmanager
def _store_lock(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fd
    finally:
        os.close(fd)
