import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from waiting import LIMIT_S

from kernelswarm.bus import Bus, embedded
from kernelswarm.schemas import Envelope, Event, StopRequested, seal

MEMBER = """
import asyncio, sys
from pathlib import Path
from kernelswarm.bus import Bus, embedded
from kernelswarm.schemas import StopRequested, seal

async def main(home, session):
    async with embedded(home) as url, await Bus.connect(url, name=session) as bus:
        stop = StopRequested(reason="user")
        who = dict(session=session, pool="cpu", node="", cause="", agent="user", worker="w", at_ns=1)
        await bus.publish(seal(stop, **who))
        print(bus.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with embedded(tmp_path) as url:
        yield url


@pytest.fixture
async def bus(url: str) -> AsyncIterator[Bus]:
    async with await Bus.connect(url, name="test") as bus:
        yield bus


@pytest.fixture
def event() -> Callable[..., Envelope]:
    """Makes one event after the other, each with an id of its own."""
    numbers = itertools.count()

    def make(
        body: Event | None = None, *, session: str = "s1", pool: str = "cpu", index: int | None = None
    ) -> Envelope:
        return seal(
            body or StopRequested(reason="user"),
            session=session,
            pool=pool,
            node="",
            cause="",
            agent="user",
            worker="w",
            at_ns=1,
            index=next(numbers) if index is None else index,
        )

    return make


@pytest.fixture
def kill_server(tmp_path: Path) -> Callable[[], None]:
    """Kills the embedded server of the test's home; its owner starts it again."""
    return lambda: os.kill(server_pid(tmp_path), signal.SIGKILL)


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[Callable]:
    """Starts another process that joins the home, publishes one event, says its URL, stays until stdin closes."""
    started: list[asyncio.subprocess.Process] = []

    async def start(session: str) -> tuple[asyncio.subprocess.Process, str]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MEMBER, str(tmp_path), session, stdin=pipe, stdout=pipe
        )
        started.append(process)
        return process, (await process.stdout.readline()).decode().strip()

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        process.stdin.close()
        await process.communicate()


@pytest.fixture
def pid_of_server(tmp_path: Path) -> Callable[[], int]:
    return lambda: server_pid(tmp_path)


@pytest.fixture
def exited() -> Callable:
    """Waits for the end of a process that is not our child."""

    async def wait(pid: int) -> None:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, ended.set)
        try:
            async with asyncio.timeout(LIMIT_S):
                await ended.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)

    return wait


def server_pid(home: Path) -> int:
    return int(json.loads((home / "nats" / "run.json").read_text())["server"])
