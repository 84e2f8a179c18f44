"""What a model's call costs beyond the model: prompt, client, AutoGen, events, per request, in the median.

A server on loopback answers at once, streamed, over both formats; its own share (the same bytes sent by a bare client)
is measured as well and taken off. Two kinds of node: one request without tools, and a conversation of four requests
with calls of tools, whose events are published on a real bus. Results go to results/model_overhead.json. Usage:

    python benchmarks/model_overhead.py [--nodes 60] [--no-results]
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from _shared import RESULTS, machine, now, save, versions
from model_server import ModelServer, Said, model_server

import given
from kernelswarm.agents.synthesizer.anthropic.backend import AnthropicBackend
from kernelswarm.agents.synthesizer.backend import Request
from kernelswarm.agents.synthesizer.model.backend import ModelBackend
from kernelswarm.agents.synthesizer.model.desk import Checked, DeskError
from kernelswarm.agents.synthesizer.model.settings import Settings
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.agents.synthesizer.openai.backend import OpenAIBackend
from kernelswarm.bus import Bus, embedded
from kernelswarm.schemas import Envelope, Event, Intent, MemoryOperator, NodePlanned, encode

GOAL_MS = 20.0
TURNS = 4
SOURCE = "import torch\n\ndef kernel(x, w):\n    return torch.rms_norm(x, (x.shape[-1],), w)\n"
FILE = f"```python\n{SOURCE}```\n"
PATHS = {"anthropic": "/v1/messages", "openai": "/chat/completions"}


def request(draw: int) -> Request:
    """A draft of the problem that the tests use."""
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate, draw=draw)
    return Request(
        problem=given.problem(),
        facts=given.facts(),
        pool=given.pool(),
        hardware=given.hardware(),
        plan=plan,
        node=f"n{draw:03d}",
        language="cpp",
        model="m",
    )


class Desk:
    """Answers at once: what a checker or the log takes is not the call's."""

    async def check(self, source: str, *, compile_only: bool) -> Checked:
        """Nobody checks here."""
        raise DeskError("nobody checks")

    async def assembly(self, node: str) -> str:
        """There is none."""
        return "nothing"

    async def ask(self, question: str, values: Mapping[str, str]) -> str:
        """The log is empty."""
        return "nothing yet"


def conversing(body: dict[str, Any]) -> Said:
    """Three turns with a look-up or two, then the file."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn == TURNS - 1:
        return Said(tools=(("submit", {"source": SOURCE, "idea": "One call."}),))
    looks = (("history", {"question": "this_session"}), ("search_knowledge", {"question": "rows of a norm"}))
    return Said("A look.", tools=looks[: 1 + turn % 2])


async def call_ms(backend: ModelBackend, bus: Bus | None, number: int) -> float:
    """One node, by its calls: prompt, requests, answers, tools, candidate, events published (or as JSON)."""
    began = time.perf_counter()
    around = Surroundings() if bus is None else Surroundings(desk=Desk())
    answer = await backend.converse(request(number), around)
    events = [event for event in (*answer.records, answer.candidate) if event is not None]
    assert answer.candidate is not None, answer.failed
    if bus is None:
        for event in events:
            encode(event)
    else:
        await bus.publish_many([sealed(event, number, index) for index, event in enumerate(events)])
    return (time.perf_counter() - began) * 1000 / len(answer.calls)


def sealed(event: Event, number: int, index: int) -> Envelope:
    """As a worker publishes it."""
    return given.envelope_of(event, node=f"n{number:03d}", session=f"overhead-{number:05d}", cause="plan", index=index)


async def bare_ms(server: ModelServer, path: str, body: bytes) -> float:
    """The same request and answer without anything of ours: what the loopback server itself takes."""
    host, port = server.url.removeprefix("http://").split(":")
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    await reader.read()
    writer.close()
    return (time.perf_counter() - began) * 1000


async def measure(kind: type[ModelBackend], nodes: int, bus: Bus | None) -> dict[str, Any]:
    """Milliseconds of a call, in the median; the first three nodes, which import and connect, do not count."""
    async with model_server() as server:
        server.answer = conversing if bus is not None else lambda body: Said(FILE)
        backend = kind(Settings(vendor=kind.vendor, key="no-secret", url=server.url))
        whole = [await call_ms(backend, bus, number) for number in range(nodes + 3)][3:]
        bodies = server.bodies[-TURNS:] if bus is not None else server.bodies[-1:]
        bare = [await bare_ms(server, PATHS[kind.vendor.name], bodies[n % len(bodies)]) for n in range(nodes)]
        await backend.close()
    whole_ms, bare_median = statistics.median(whole), statistics.median(bare)
    what = "with tools, published" if bus is not None else "without tools"
    print(
        f"{kind.vendor.name:10} {what:22} {whole_ms - bare_median:6.2f} ms a call beyond the model (median of {nodes} "
        f"nodes; a call {whole_ms:.2f}, the server {bare_median:.2f}, slowest node's {max(whole):.2f})"
    )
    return {
        "format": kind.vendor.name,
        "tools": bus is not None,
        "overhead_ms": whole_ms - bare_median,
        "call_ms": whole_ms,
        "server_ms": bare_median,
        "slowest_ms": max(whole),
        "nodes": nodes,
    }


async def every(nodes: int) -> list[dict[str, Any]]:
    """Both kinds of node over both formats."""
    kinds: tuple[type[ModelBackend], ...] = (AnthropicBackend, OpenAIBackend)
    with tempfile.TemporaryDirectory(prefix="overhead-") as home:
        async with embedded(Path(home)) as url, await Bus.connect(url, name="overhead") as bus:
            return [await measure(kind, nodes, way) for kind in kinds for way in (None, bus)]


def main() -> int:
    """Exit status 1 if a median is above the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--no-results", action="store_true", help="write no file")
    options = parser.parse_args()
    record = {"benchmark": "model_overhead", "date": now(), "versions": versions(), "machine": machine()}
    rows = asyncio.run(every(options.nodes))
    if not options.no_results:
        save(RESULTS / "model_overhead.json", {**record, "goal_ms": GOAL_MS, "rows": rows})
    return 0 if max(row["overhead_ms"] for row in rows) < GOAL_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
