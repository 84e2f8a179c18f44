"""How long one hop of the ring takes, and how many events a second the bus stores.

A hop: an event is published (stored), a worker gets it, publishes its answer (stored), the asker gets that. Beside it,
in the same rounds, the shortest round trip there is over the same server: a core NATS request and reply of the same
payload, stored nowhere. The ratio of the two is what durability and sharing out cost.

    python benchmarks/hop.py [--rounds 1000] [--events 10000] [--payload 1000] [--nats URL] [--json]
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from kernelswarm.bus import IN_FLIGHT, Bus, embedded
from kernelswarm.schemas import Envelope, Event, SessionClosed, StopRequested, seal

LIMIT_MS = 20.0
"""What a hop may take at the 99th percentile on an idle machine."""


def envelope(session: str, body: Event, index: int, cause: str = "") -> Envelope:
    """One event of the benchmark's session."""
    return seal(
        body,
        session=session,
        pool="bench",
        node="",
        cause=cause,
        agent="bench",
        worker="bench",
        at_ns=time.time_ns(),
        index=index,
    )


async def answer(bus: Bus, session: str, payload: str) -> None:
    """A worker as the ring has them: take, answer, acknowledge."""
    async with bus.consume("bench", "worker", [StopRequested], session=session) as work:
        async for delivery in work:
            body = SessionClosed(reason="budget", detail=payload)
            await bus.publish(envelope(session, body, 0, cause=delivery.envelope.id))
            await delivery.ack()


async def hops(asker: Bus, session: str, payload: str, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each hop and of each core round trip, taken in turn."""
    hop, core = [], []
    raw = payload.encode()
    async with asker.consume("bench", "asker", [SessionClosed], session=session) as answers:
        for index in range(-10, rounds):  # the first ten warm up
            question = envelope(session, StopRequested(reason=payload), index)
            started = time.perf_counter()
            await asker.publish(question)
            delivery = await anext(answers)
            between = time.perf_counter()
            await delivery.ack()
            requested = time.perf_counter()
            await asker.request(f"echo-{session}", raw, 5)
            ended = time.perf_counter()
            if index >= 0:
                hop.append((between - started) * 1e3)
                core.append((ended - requested) * 1e3)
    return hop, core


async def stored_per_second(bus: Bus, session: str, payload: str, events: int) -> float:
    """Events that one process publishes and has acknowledged in a second, 256 on their way at a time."""
    batch = [envelope(session, StopRequested(reason=payload), index) for index in range(events)]
    started = time.perf_counter()
    await bus.publish_many(batch)
    return events / (time.perf_counter() - started)


async def asked_per_second(bus: Bus, session: str, payload: str, requests: int) -> float:
    """Core round trips a second with as many on their way: the client's own limit."""
    window, raw = asyncio.Semaphore(IN_FLIGHT), payload.encode()

    async def ask() -> None:
        async with window:
            await bus.request(f"echo-{session}", raw, 30)

    started = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(requests)))
    return requests / (time.perf_counter() - started)


async def measure(url: str, *, rounds: int, events: int, payload: int) -> dict[str, Any]:
    """Run everything once against the server at ``url``."""
    session, text = f"hop-{time.time_ns()}", "x" * payload

    async def echo(data: bytes) -> bytes:
        return data

    async with await Bus.connect(url, name="hop-asker") as asker, await Bus.connect(url, name="hop-worker") as worker:
        await worker.serve(f"echo-{session}", echo)
        working = asyncio.create_task(answer(worker, session, text))
        try:
            hop, core = await hops(asker, session, text, rounds)
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        stored = await stored_per_second(asker, f"{session}-flood", text, events)
        requests = await asked_per_second(asker, session, text, events)
    return report(hop, core, stored, requests)


def report(hop: list[float], core: list[float], stored: float, requests: float) -> dict[str, Any]:
    """The figures, in milliseconds and events a second."""
    return {
        "rounds": len(hop),
        "hop_ms": {"p50": percentile(hop, 50), "p99": percentile(hop, 99)},
        "core_ms": {"p50": percentile(core, 50), "p99": percentile(core, 99)},
        "ratio_p50": percentile(hop, 50) / percentile(core, 50),
        "stored_per_s": stored,
        "core_requests_per_s": requests,
        "ratio_throughput": stored / requests,
        "limit_ms": LIMIT_MS,
        "within_limit": percentile(hop, 99) < LIMIT_MS,
    }


def percentile(samples: list[float], which: int) -> float:
    """Percentile ``which`` (1 to 99) of at least two samples."""
    return statistics.quantiles(samples, n=100, method="inclusive")[which - 1]


def table(results: dict[str, Any]) -> str:
    """The figures for people."""
    hop, core = results["hop_ms"], results["core_ms"]
    return "\n".join(
        (
            f"{results['rounds']} hops in turn with core NATS request and reply, one process, two connections",
            f"  hop (stored, answered, stored, heard)     p50 {hop['p50']:6.2f} ms   p99 {hop['p99']:6.2f} ms",
            f"  core request and reply (nothing stored)   p50 {core['p50']:6.2f} ms   p99 {core['p99']:6.2f} ms",
            f"  ratio at p50                              {results['ratio_p50']:.1f}x",
            f"  events stored a second                    {results['stored_per_s']:,.0f}",
            f"  core round trips a second                 {results['core_requests_per_s']:,.0f}",
            f"  ratio                                     {results['ratio_throughput']:.2f}x",
            f"  p99 under {results['limit_ms']:.0f} ms: {'yes' if results['within_limit'] else 'NO'}",
        )
    )


@contextlib.asynccontextmanager
async def server(url: str | None) -> AsyncIterator[str]:
    """The named server, or an embedded one over a folder of its own."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory() as home:
        async with embedded(Path(home)) as own:
            yield own


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure as the command line says."""
    async with server(options.nats) as url:
        return await measure(url, rounds=options.rounds, events=options.events, payload=options.payload)


def at_least(smallest: int) -> Callable[[str], int]:
    """A parser of whole numbers from ``smallest`` on."""

    def number(text: str) -> int:
        value = int(text)
        if value < smallest:
            raise argparse.ArgumentTypeError(f"must be at least {smallest}")
        return value

    return number


def main() -> int:
    """Exit status 1 if the limit is missed."""
    parser = argparse.ArgumentParser(description="Latency of one hop of the ring, and events stored a second.")
    parser.add_argument("--rounds", type=at_least(2), default=1000)
    parser.add_argument("--events", type=at_least(1), default=10_000)
    parser.add_argument("--payload", type=at_least(0), default=1000, help="bytes of padding in each event")
    parser.add_argument("--nats", metavar="URL", help="a running server instead of an embedded one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = asyncio.run(run(options))
    print(json.dumps(results) if options.json else table(results))
    return 0 if results["within_limit"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
