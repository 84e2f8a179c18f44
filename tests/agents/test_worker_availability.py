"""Who is there and who is missing, on a real server."""

import asyncio
import json
import os
import sys
import time

from rich.console import Console
from waiting import LIMIT_S, eventually

from kernelswarm.agents.registry import ROLES
from kernelswarm.bus import Bus
from kernelswarm.cli.commands.pools_live import absent, live_table
from kernelswarm.schemas import WorkerPresence
from kernelswarm.sessions.worker_availability import join_command, missing_roles, watch_availability


def worker(role: str, pool: str = "cpu", **changes) -> WorkerPresence:
    now = time.time_ns()
    fields = dict(worker=f"h.1.{role}.1", role=role, pool=pool, host="h", pid=1, since_ns=now - 90 * 10**9, at_ns=now)
    return WorkerPresence(**(fields | changes))


def test_roles_that_nobody_serves_are_named_with_the_command_that_joins_them():
    there = [worker(role) for role in ROLES if role not in ("verifier", "profiler")] + [worker("verifier", "gpu")]
    assert missing_roles(there, "cpu") == ["verifier", "profiler"]
    assert join_command("cpu", ["verifier", "profiler"], "nats://h:4222") == (
        "kernelswarm swarm --pool cpu --roles verifier,profiler --nats nats://h:4222"
    )
    assert join_command("cpu", ROLES, "nats://h:4222") == "kernelswarm swarm --pool cpu --nats nats://h:4222"


async def test_a_session_hears_that_it_waits_and_that_it_waits_no_longer(bus: Bus):
    messages: asyncio.Queue[str] = asyncio.Queue()
    watcher = asyncio.create_task(watch_availability(bus, "cpu", messages.put_nowait, every_s=0.05))
    try:
        async with asyncio.timeout(LIMIT_S):
            first = await messages.get()
            assert first.startswith(
                "waiting for workers in pool cpu; to join: kernelswarm swarm --pool cpu --nats nats://"
            )
            for role in ROLES:
                if role != "profiler":
                    await bus.heartbeat(worker(role))
            while "a profiler in pool cpu" not in await messages.get():
                pass
            await bus.heartbeat(worker("profiler"))
            while await messages.get() != "":
                pass
    finally:
        watcher.cancel()


def test_the_table_tells_who_is_there_and_what_they_do():
    busy = worker("compiler", busy_with="rmsnorm-a1/n003", done=12, device="a processor")
    console = Console(width=200)
    with console.capture() as captured:
        console.print(live_table([busy], time.time_ns()))
    row = captured.get().splitlines()[1].split()
    assert row[:4] == ["cpu", "compiler", "h.1.compiler.1", "h"]
    assert {"rmsnorm-a1/n003", "12", "min"} <= set(row)
    assert absent([busy])[0].startswith("pool cpu has no planner, no synthesizer")


async def test_pools_live_asks_the_server_of_this_machine(bus: Bus, tmp_path):
    await bus.heartbeat(worker("compiler", busy_with="s1/n001", done=3))

    async def presences() -> list[tuple]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kernelswarm.cli", "pools", "--live", "--json"),
            env={**os.environ, "KERNELSWARM_HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE,
        )
        stdout, _ = await process.communicate()
        return [(row["pool"], row["role"], row["busy_with"], row["done"]) for row in json.loads(stdout)]

    mine = [("cpu", "compiler", "s1/n001", 3)]
    assert await eventually(presences, mine) == mine
