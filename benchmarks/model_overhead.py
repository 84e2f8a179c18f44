"""What a model's call costs beyond the model: prompt, client, AutoGen, events, per request, in the median.

A server on loopback answers at once, streamed, over both formats; its own share (the same bytes sent by a bare client)
is measured as well and taken off. Each node is one request without tools. Usage:

    python benchmarks/model_overhead.py [--nodes 60]
"""

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from model_server import ModelServer, Said, model_server

import given
from kernelswarm.agents.synthesizer.anthropic.backend import AnthropicBackend
from kernelswarm.agents.synthesizer.backend import Request
from kernelswarm.agents.synthesizer.model.backend import ModelBackend
from kernelswarm.agents.synthesizer.model.settings import Settings
from kernelswarm.agents.synthesizer.openai.backend import OpenAIBackend
from kernelswarm.schemas import Intent, MemoryOperator, NodePlanned, encode

GOAL_MS = 20.0
FILE = "```python\nimport torch\n\ndef kernel(x, w):\n    return torch.rms_norm(x, (x.shape[-1],), w)\n```\n"
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


async def node_ms(backend: ModelBackend, number: int) -> float:  # type: ignore[type-arg]
    """One node: prompt, request, answer, candidate, events as JSON."""
    began = time.perf_counter()
    answer = await backend.synthesize(request(number))
    for event in (*answer.records, answer.candidate):
        assert event is not None, answer.failed
        encode(event)
    return (time.perf_counter() - began) * 1000


async def bare_ms(server: ModelServer, path: str) -> float:
    """The same request and answer without anything of ours: what the loopback server itself takes."""
    body = server.bodies[-1]
    host, port = server.url.removeprefix("http://").split(":")
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    await reader.read()
    writer.close()
    return (time.perf_counter() - began) * 1000


async def measure(kind: type[ModelBackend], nodes: int) -> float:  # type: ignore[type-arg]
    """Median overhead of a node, milliseconds; the first three, which import and connect, do not count."""
    async with model_server() as server:
        server.answer = lambda body: Said(FILE)
        backend = kind(Settings(vendor=kind.vendor, key="no-secret", url=server.url))
        whole = [await node_ms(backend, number) for number in range(nodes + 3)][3:]
        bare = [await bare_ms(server, PATHS[kind.vendor.name]) for _ in range(nodes)]
        await backend.close()
    ms = statistics.median(whole) - statistics.median(bare)
    whole_ms, bare_median = statistics.median(whole), statistics.median(bare)
    print(
        f"{kind.vendor.name:10} {ms:6.2f} ms beyond the model (median of {nodes}; a node {whole_ms:.2f}, "
        f"the server {bare_median:.2f}, slowest node {max(whole):.2f})"
    )
    return ms


def main() -> int:
    """Exit status 1 if a vendor's median is above the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=60)
    nodes = parser.parse_args().nodes
    kinds: tuple[type[ModelBackend], ...] = (AnthropicBackend, OpenAIBackend)  # type: ignore[type-arg]
    medians = [asyncio.run(measure(kind, nodes)) for kind in kinds]
    return 0 if max(medians) < GOAL_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
