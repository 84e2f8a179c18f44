"""Fork servers that start slowly: on a busy machine they may take longer, and who gives up names the load."""

import asyncio
import os
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import given
from kernelswarm.hardware.harness.validation_process import VALIDATION_SECONDS, validate_problem
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.processes import fork_server, wire
from kernelswarm.hardware.processes.fork_server import ForkServerError, ForkServers, Program
from kernelswarm.hardware.processes.messages import Done
from kernelswarm.schemas import ProblemError

SLOW = """
import socket, sys, time
control = socket.socket(fileno=int(sys.argv[1]))
time.sleep({seconds})
control.sendall({up!r})
control.recv(1)
"""
START_S = 2.0


def slow(folder: Path, seconds: float) -> Program:
    """A fork server that is up after so long."""
    (folder / "slow_start.py").write_text(SLOW.format(seconds=seconds, up=bytes(wire.frame(Done()))))
    return Program("slow_start", (), {"PYTHONPATH": str(folder)}, (("PYTHONPATH", str(folder)),))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fork_server, "START_SECONDS", START_S)
    monkeypatch.setattr(fork_server, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    running = ForkServers()
    yield running
    running.close()


def load(monkeypatch: pytest.MonkeyPatch, programs: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (programs, programs, programs))


def test_on_a_busy_machine_a_start_may_take_longer(
    servers: ForkServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(monkeypatch, 100.0)
    program = slow(tmp_path, 1.1 * START_S)
    servers.start(program)
    assert servers.living(program) is not None


@pytest.mark.parametrize(
    ("programs", "sentence"), [(1.0, "s): "), (2.4, "s): "), (3.0, "s, with 3 programs at work on 2 cores): ")]
)
def test_who_gives_up_names_the_load(
    servers: ForkServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: float, sentence: str
) -> None:
    monkeypatch.setattr(fork_server, "START_SECONDS", 0.1)
    load(monkeypatch, programs)
    began = time.monotonic()
    with pytest.raises(ForkServerError, match=rf"\(it still starts after \d+ {re.escape(sentence)}it printed nothing"):
        servers.start(slow(tmp_path, 600))
    assert time.monotonic() - began >= 0.1 * max(1.0, programs / 2)


def test_a_server_that_nobody_uses_any_more_is_not_waited_for(
    servers: ForkServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "START_SECONDS", 600.0)
    load(monkeypatch, 0.0)
    program = slow(tmp_path, 600)
    servers.use(program)
    threading.Timer(0.2, servers.leave, (program,)).start()
    with pytest.raises(ForkServerError, match=r"it still starts after \d s"):
        servers.start(program)


async def test_a_problem_is_examined_for_as_long_as_its_process_works_and_the_load_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[dict[str, Any]] = []

    async def ask(*_: Any, **limit: Any) -> NoReturn:
        limits.append(limit)
        raise TimeoutError

    async def spawn(role: str) -> Any:
        return SimpleNamespace(ask=ask, send=lambda number: None, kill=lambda: asyncio.sleep(0))

    load(monkeypatch, 31.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    launcher: Any = SimpleNamespace(spawn=spawn, pool_name="cpu")
    sentence = "not examined within 180 s, with 31 programs at work on 2 cores; use smaller shapes"
    with pytest.raises(ProblemError, match=sentence):
        await validate_problem(launcher, Lease(given.pool(), tmp_path), given.problem())
    (limit,) = limits
    assert limit["seconds"] == VALIDATION_SECONDS and limit["stood"]() == 0.0, "waiting for a core does not count then"
