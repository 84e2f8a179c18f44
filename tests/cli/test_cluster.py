"""A cluster as its users meet it: asked for here, recorded there, served elsewhere; real processes, real server."""

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brief
import pytest
from servers import nats_server
from waiting import LONG_S, within

import given
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool

Process = asyncio.subprocess.Process


@dataclass(frozen=True)
class Done:
    status: int | None
    out: str
    err: str

    @property
    def value(self) -> Any:
        """What ``--json`` printed."""
        assert self.status == 0, self.err
        return json.loads(self.out)


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Starts a command with a home of its own; it is gone after the test."""
    started: list[Process] = []

    async def call(home: Path, *arguments: object) -> Process:
        environment = {name: value for name, value in os.environ.items() if name != "KERNELSWARM_NATS"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, brief.__file__, *map(str, arguments)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # What a kill leaves comes again soon.
            env={**environment, "KERNELSWARM_HOME": str(home), "KERNELSWARM_NATS_ACK_WAIT": "5"},
        )
        started.append(process)
        return process

    yield call
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def says(process: Process, words: str) -> list[str]:
    """The lines on stderr up to the one with ``words``."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or words not in lines[-1]:
        line = await within(process.stderr.readline(), LONG_S)
        assert line, lines
        lines.append(line.decode().strip())
    return lines


async def ends(process: Process) -> Done:
    out, err = await within(process.communicate(), LONG_S)
    return Done(process.returncode, out.decode(), err.decode())


def make_home(home: Path) -> Path:
    """A home with a pool that is timed against eager alone; the problem's file."""
    (home / "pools").mkdir(parents=True)
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    detect(find_pool("bare", home), home)  # measures the machine, which each process would do while others run
    (home / "small.py").write_text(given.SOURCE)
    return home / "small.py"


@pytest.mark.thorough
async def test_a_session_waits_for_workers_is_killed_resumed_replayed_and_forked_over_a_cluster(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    user, reaper, far = tmp_path / "user", tmp_path / "reaper", tmp_path / "far"
    problem = make_home(user)
    async with nats_server(tmp_path / "nats", "") as port:
        cluster = ("--nats", f"nats://127.0.0.1:{port}")
        await says(await start(reaper, "record", *cluster), "recording")

        # Nobody is there to do the work: it says so, and with which command somebody joins.
        options = ("--pool", "bare", "--budget", 2, "--no-workers")
        search = await start(user, "optimize", problem, *options, *cluster)
        lines = await says(search, "waiting for workers in pool bare")
        session = next(line.removeprefix("session ") for line in lines if line.startswith("session "))
        search.kill()
        await search.wait()

        # Another process goes on with it, waits as well, and is served once that command is given.
        resumed = await start(user, "resume", session, "--no-workers", *cluster)
        command = (await says(resumed, "waiting for workers"))[-1].partition("to join: kernelswarm ")[2]
        swarm = await start(user, *shlex.split(command))
        result = await ends(resumed)
        assert result.status == 0, result.err
        assert "nothing is waited for any more" in result.err and "ended: budget" in result.out

        # From a host that has no log of its own: what is asked of the cluster's recorder.
        assert (await ends(await start(far, "replay", session, *cluster, "--json"))).value["status"] == "closed"
        (row,) = (await ends(await start(far, "sessions", *cluster, "--json"))).value
        assert (row["session"], row["kind"], row["reason"]) == (session, "search", "budget") and row["best"]

        fork = ("fork", session, "--node", row["best"], "--budget", "1", "--no-workers", "--json")
        child = (await ends(await start(user, *fork, *cluster))).value
        assert child["candidates"] == 1 and child["reason"] == "budget"
        assert (await ends(await start(far, "replay", child["session"], *cluster, "--json"))).value["unsaid"] == []
        steps = (await ends(await start(far, "lineage", child["session"], child["best"], *cluster, "--json"))).value
        assert steps[0]["session"] == session and steps[-1]["session"] == child["session"]

        swarm.send_signal(signal.SIGINT)
        assert (await ends(swarm)).status == 0
