"""Several hosts, each in a network namespace of its own: they join, leave, lose the link and get it back.

The hosts' work is simulated (benchmarks/_fleet_worker.py answers at once); bus, consumers and network are real.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from servers import nats_server
from waiting import LONG_S, within

import given
import kernelswarm
from kernelswarm.bus import Bus
from kernelswarm.schemas import Envelope, Intent, MemoryOperator, NodePlanned, seal

WORKER = Path(kernelswarm.__file__).parent / "benchmarks" / "_fleet_worker.py"
NODES, WIDTH, STEPS = 60, 4, 6
TAG = f"ks{os.getpid() % 100000}"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Network:
    """A bridge here, with the server's address on it, and hosts that hang on it by one cable each."""

    def __init__(self) -> None:
        self.address = f"10.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.1"
        self._hosts: list[str] = []

    def begin(self) -> None:
        ip("link", "add", TAG, "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", TAG)
        ip("link", "set", TAG, "up")

    def host(self) -> str:
        number = len(self._hosts) + 1
        name = f"{TAG}h{number}"
        ip("netns", "add", name)
        self._hosts.append(name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "master", TAG, "up")
        ip("-n", name, "addr", "add", f"{self.address.rpartition('.')[0]}.{number + 1}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", name, "link", "set", device, "up")
        return name

    def cut(self, host: str) -> None:
        ip("link", "set", host, "down")

    def heal(self, host: str) -> None:
        ip("link", "set", host, "up")

    def end(self) -> None:
        for host in self._hosts:
            subprocess.run(["ip", "netns", "del", host], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", TAG], check=False, capture_output=True)


@pytest.fixture
def network():
    if shutil.which("ip") is None:
        pytest.skip("no `ip` here (package iproute2) to make hosts with")
    namespaces = Network()
    try:
        namespaces.begin()
        namespaces.host()
    except subprocess.CalledProcessError as error:
        namespaces.end()
        pytest.skip(f"network namespaces are not permitted here: {error.stderr.strip()}")
    yield namespaces
    namespaces.end()


@pytest.fixture
async def hosts() -> AsyncIterator:
    """Starts the workers of a host: ten, two of each role."""
    started: list[asyncio.subprocess.Process] = []

    async def start(name: str, url: str) -> asyncio.subprocess.Process:
        command = ("ip", "netns", "exec", name, sys.executable, str(WORKER), url, str(len(started)), "10", "fair", "0")
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, "KERNELSWARM_NATS_ACK_WAIT": "1"}
        )
        started.append(process)
        assert await within(process.stdout.readline()) == b"ready\n"
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def plan(number: int) -> Envelope:
    node = f"n{number:03d}"
    body = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    return seal(body, session="s1", pool="fleet", node=node, cause=node, agent="user", worker="u", at_ns=1)


async def test_hosts_come_and_go_and_nothing_is_lost(tmp_path: Path, network: Network, hosts, monkeypatch):
    monkeypatch.setenv("KERNELSWARM_NATS_ACK_WAIT", "1")
    async with asyncio.timeout(LONG_S), nats_server(tmp_path, "", host="0.0.0.0") as port:
        url = f"nats://{network.address}:{port}"
        first = f"{TAG}h1"
        await hosts(first, url)
        async with await Bus.connect(url, name="here") as bus, bus.tail(session="s1") as tail:
            opened = seal(
                given.opened(), session="s1", pool="fleet", node="", cause="", agent="user", worker="u", at_ns=1
            )
            await bus.publish(opened)
            await bus.publish_many([plan(number) for number in range(WIDTH)])
            planned, diagnosed, leaving = WIDTH, 0, None
            async for _, envelope in tail:
                if envelope.tag != "node.diagnosed.v1":
                    continue
                diagnosed += 1
                if diagnosed == NODES:
                    break
                if diagnosed == 10:
                    leaving = await hosts(network.host(), url)  # joins
                elif diagnosed == 20:
                    network.cut(first)
                elif diagnosed == 30:
                    await hosts(network.host(), url)
                    leaving.kill()  # leaves without a word
                elif diagnosed == 40:
                    network.heal(first)
                    network.cut(f"{TAG}h3")
                elif diagnosed == 50:
                    network.heal(f"{TAG}h3")
                if planned < NODES:
                    await bus.publish(plan(planned))
                    planned += 1
            counts = Counter((envelope.node, envelope.tag) for _, envelope in await bus.history("s1"))
    assert len(counts) == NODES * STEPS + 1
    assert set(counts.values()) == {1}
