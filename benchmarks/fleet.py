"""A thousand workers on one server, simulated: hop latency, fairness between sessions, redeliveries, nothing lost.

Processes with many workers each answer with made-up effects; server, stream, dispatch tokens, per-session consumers,
publishing, acknowledging and the recorder are the real ones. Five rounds, each on a server and a log of its own. With
all workers, which answer at once:

- ``calm``: sessions with three nodes under way each, as a planner keeps them: how long does one hop take?
- ``flood``: one session plans everything at once, later ones a little: how much goes through?
- ``deaths``: the same, and a process with a quarter of the workers is killed (SIGKILL) in the middle

With fifty workers whose steps take a tenth of a second, so that work waits for workers and not for the processor:

- ``queue``: one session plans everything at once, later ones a little; a shared queue (what a plain durable gives)
- ``turns``: the same, sessions by round robin (what workers of a cluster use)

    python benchmarks/fleet.py [--workers 1000] [--processes 4] [--early 1500] [--late 60] [--json]
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from _fleet_worker import ANSWERS, POOL
from _shared import RESULTS, machine, now, save, table, versions

import given
from kernelswarm.bus import Bus, embedded
from kernelswarm.schemas import Envelope, Event, Intent, MemoryOperator, NodeDiagnosed, NodePlanned, seal
from kernelswarm.store import Log, log_path, recording

ACK_WAIT_S = 5.0
"""Shorter than the 30 s of a real cluster, so that a death costs a benchmark's patience less."""

SLOW_WORKERS, SLOW_STEP_S = 50, 0.1
LATE_SESSIONS = 4
CALM_SESSIONS = 20
CALM_NODES = 15
WIDTH = 3


def say(body: Event, session: str, node: str = "") -> Envelope:
    """An event of the benchmark, as a planner or a user says it."""
    return seal(
        body, session=session, pool=POOL, node=node, cause=node, agent="bench", worker="bench", at_ns=time.time_ns()
    )


def plan(session: str, number: int) -> Envelope:
    """Node ``number`` of a session."""
    draft = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    return say(draft, session, f"n{number:05d}")


@asynccontextmanager
async def fleet(
    url: str, workers: int, processes: int, mode: str, step_s: float
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """The workers' processes, all of them waiting for work."""
    script = str(Path(__file__).with_name("_fleet_worker.py"))
    environment = {**os.environ, "KERNELSWARM_NATS_ACK_WAIT": f"{ACK_WAIT_S:g}"}
    started = []
    for number in range(processes):
        share = workers // processes + (number < workers % processes)
        started.append(
            await asyncio.create_subprocess_exec(
                *(sys.executable, script, url, str(number), str(share), mode, f"{step_s:g}"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment,
            )
        )
    try:
        for process in started:
            assert process.stdout is not None
            if not await process.stdout.readline():
                raise RuntimeError("a process of the fleet did not start")
        yield started
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def calm(bus: Bus) -> dict[str, int]:
    """Sessions that plan a node when one of theirs is diagnosed; nodes planned by session."""
    sessions = [f"calm{number}" for number in range(CALM_SESSIONS)]
    planned = dict.fromkeys(sessions, WIDTH)
    async with bus.tail(after=0) as tail:
        for session in sessions:
            await bus.publish(say(given.opened(), session))
            await bus.publish_many([plan(session, number) for number in range(1, WIDTH + 1)])
        left = CALM_SESSIONS * CALM_NODES
        async for _, envelope in tail:
            if envelope.tag == "node.diagnosed.v1":
                left -= 1
                if not left:
                    return planned
                if planned[envelope.session] < CALM_NODES:
                    planned[envelope.session] += 1
                    await bus.publish(plan(envelope.session, planned[envelope.session]))
    raise RuntimeError("the stream ended")


async def crowded(bus: Bus, early: int, late: int, victim: asyncio.subprocess.Process | None) -> dict[str, int]:
    """One session plans ``early`` nodes at once, then others ``late`` each; nodes planned by session."""
    planned = {"early": early, **{f"late{number}": late for number in range(LATE_SESSIONS)}}
    for session, count in planned.items():
        await bus.publish(say(given.opened(), session))
        await bus.publish_many([plan(session, number) for number in range(1, count + 1)])
    left = sum(planned.values())
    async with bus.tail(after=0) as tail:
        async for _, envelope in tail:
            if envelope.tag == "node.diagnosed.v1":
                left -= 1
                if victim is not None and left == sum(planned.values()) * 2 // 3:
                    victim.kill()
                if not left:
                    return planned
    raise RuntimeError("the stream ended")


async def played(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One round on a server and a log of its own."""
    mode = "queue" if name == "queue" else "fair"
    slow = name in ("queue", "turns")
    workers, step_s = (SLOW_WORKERS, SLOW_STEP_S) if slow else (options.workers, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(embedded(home))
            bus = await stack.enter_async_context(await Bus.connect(url, name="bench"))
            recorder = await stack.enter_async_context(recording(home, bus))
            there = await stack.enter_async_context(fleet(url, workers, options.processes, mode, step_s))
            started = time.perf_counter()
            async with asyncio.timeout(options.limit):
                if name == "calm":
                    planned = await calm(bus)
                else:
                    victim = there[-1] if name == "deaths" else None
                    planned = await crowded(bus, options.early, options.late, victim)
            seconds = time.perf_counter() - started
            events = await bus.history(None)
            stream = (await bus._link.js.stream_info("EVENTS")).state
            await recorder.recorded(events[-1][0])
        with Log.open(log_path(home), read_only=True) as log:
            verified = log.verify().ok
            logged = [envelope for _, envelope in log.read(limit=10**9)]
    stream_facts = {"consumers": stream.consumer_count, "stream_bytes": stream.bytes}
    return {
        "workers": workers,
        "step_s": step_s,
        "seconds": seconds,
        **stream_facts,
        **verification(planned, logged, verified),
        **measured(logged),
    }


def verification(planned: dict[str, int], logged: list[Envelope], verified: bool) -> dict[str, Any]:
    """What the log lacks, and what it has twice."""
    kinds = len(ANSWERS) + 1
    nodes = sum(planned.values())
    counts = Counter((envelope.session, envelope.node, envelope.tag) for envelope in logged)
    return {
        "nodes": nodes,
        "events": len(logged),
        "lost": nodes * kinds + len(planned) - len(counts),
        "twice": sum(count - 1 for count in counts.values()),
        "chain_verifies": verified,
    }


def measured(logged: list[Envelope]) -> dict[str, Any]:
    """Hops, redeliveries and when each session had its nodes done, from the events' own clocks (one machine)."""
    at = {envelope.id: envelope.at_ns for envelope in logged}
    answers = [envelope for envelope in logged if envelope.agent in ANSWERS]
    hops = [(envelope.at_ns - at[envelope.cause]) / 1e6 for envelope in answers if envelope.cause in at]
    begin = min(at.values())
    done: dict[str, list[float]] = defaultdict(list)
    for envelope in answers:
        if isinstance(envelope.event(), NodeDiagnosed):
            done[envelope.session].append((envelope.at_ns - begin) / 1e9)
    cuts = statistics.quantiles(hops, n=100, method="inclusive")
    return {
        "hop_ms": {"p50": cuts[49], "p99": cuts[98], "most": max(hops)},
        "redelivered": sum(int(envelope.worker.rpartition(".")[2]) > 1 for envelope in answers),
        "workers_that_answered": len({envelope.worker.rpartition(".")[0] for envelope in answers}),
        "session_done_s": {session: {"first": min(times), "last": max(times)} for session, times in done.items()},
    }


def figures(rounds: dict[str, dict[str, Any]]) -> str:
    """A table for people."""
    rows = []
    for name, result in rounds.items():
        late = [times["last"] for session, times in result["session_done_s"].items() if session.startswith("late")]
        early = result["session_done_s"].get("early", {}).get("last")
        rows.append(
            (
                name,
                f"{result['events'] / result['seconds']:,.0f}",
                f"{result['hop_ms']['p50']:.1f}",
                f"{result['hop_ms']['p99']:.1f}",
                str(result["redelivered"]),
                f"{max(late):.1f}" if late else "",
                f"{early:.1f}" if early else "",
                f"{result['lost']} / {result['twice']}",
                str(result["consumers"]),
            )
        )
    header = (
        "round",
        "events/s",
        "hop p50 ms",
        "p99",
        "redelivered",
        "late done s",
        "early",
        "lost/twice",
        "consumers",
    )
    return table(header, rows)


def main() -> int:
    """Exit status 1 if an event was lost or said twice."""
    parser = argparse.ArgumentParser(description="A thousand workers on one server, simulated.")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--early", type=int, default=1500, help="nodes that the early session plans at once")
    parser.add_argument("--late", type=int, default=60, help="nodes of each of the four later sessions")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a round may take")
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.json")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["KERNELSWARM_NATS_ACK_WAIT"] = f"{ACK_WAIT_S:g}"
    rounds: dict[str, dict[str, Any]] = {}
    for name in ("calm", "flood", "deaths", "queue", "turns"):
        rounds[name] = asyncio.run(played(name, options))
        print(f"{name} took {rounds[name]['seconds']:.1f} s", file=sys.stderr, flush=True)
    settings = {key: getattr(options, key) for key in ("workers", "processes", "early", "late")}
    results = {"at": now(), "machine": machine(), "versions": versions(), "options": settings, "rounds": rounds}
    save(options.out, results)
    print(json.dumps(results) if options.json else figures(rounds))
    return (
        0
        if all(not result["lost"] and not result["twice"] and result["chain_verifies"] for result in rounds.values())
        else 1
    )


if __name__ == "__main__":
    raise SystemExit(main())
