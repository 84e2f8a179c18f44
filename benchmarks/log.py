"""How many events a second are written down durably, and how long queries wait meanwhile.

Two ways through a real NATS server into the log. *Drain*: the events lie in the stream, a recorder starts and is timed
until the last one is committed. *Live*: another process publishes while the recorder writes, from the first publish to
the last commit; meanwhile queries are asked over the bus, and the recorder's event loop is watched for stalls, because
agents live in it. Beside them, in the same run and on the same disk, the same rows by plain ``executemany``.

    python benchmarks/log.py [--events 20000] [--payload 1000] [--json]
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

from kernelswarm.bus import Bus, embedded
from kernelswarm.bus.bulk import running
from kernelswarm.schemas import Envelope, StopRequested, encode, seal
from kernelswarm.store import log_path, recording, run_sql
from kernelswarm.store.chain import link, read_message

REQUIRED = 5000
"""Events a second that have to be written."""

CHUNK = 2000
"""Events that the publisher hands to the bus at a time."""


def made(session: str, count: int, payload: int) -> list[Envelope]:
    """Events of ``payload`` bytes each, and the envelope."""
    who = {"pool": "bench", "node": "n1", "cause": "", "agent": "bench", "worker": "bench", "at_ns": time.time_ns()}
    return [seal(StopRequested(reason="x" * payload), session=session, index=i, **who) for i in range(count)]


async def publish(url: str, session: str, events: int, payload: int) -> int:
    """Publish all of them; the highest sequence."""
    last = 0
    async with await Bus.connect(url, name="publisher") as bus:
        envelopes = made(session, events, payload)
        for start in range(0, events, CHUNK):
            last = max(last, *await bus.publish_many(envelopes[start : start + CHUNK]))
    return last


async def drain(home: Path, url: str, bus: Bus, args: argparse.Namespace) -> float:
    """Events a second from a full stream into the log."""
    last = await publish(url, "drain", args.events, args.payload)
    started = time.perf_counter()
    async with recording(home, bus) as recorder:
        await recorder.recorded(last)
        return args.events / (time.perf_counter() - started)


async def live(home: Path, url: str, bus: Bus, args: argparse.Namespace) -> dict[str, Any]:
    """Events a second from a publisher in another process, with queries and the loop's stalls meanwhile."""
    command = [sys.executable, __file__, "--publish", "--events", str(args.events), "--payload", str(args.payload)]
    async with recording(home, bus) as recorder:
        await recorder.started.wait()
        pipe = asyncio.subprocess.PIPE
        publisher = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        await publisher.stdout.readline()
        watched = asyncio.create_task(stalls()), asyncio.create_task(queries(url))
        started = time.perf_counter()
        publisher.stdin.write(f"{url}\n".encode())
        last = int(await publisher.stdout.readline())
        published = time.perf_counter() - started
        await recorder.recorded(last)
        recorded = time.perf_counter() - started
        for task in watched:
            task.cancel()
        stalled, asked = [await task for task in watched]
        await publisher.wait()
    return {
        "published_per_second": args.events / published,
        "recorded_per_second": args.events / recorded,
        "query_ms": spread(asked),
        "loop_stall_ms": spread(stalled),
    }


async def stalls() -> list[float]:
    """How much later than asked a task of this loop runs, milliseconds."""
    found = []
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(0.002)
            found.append((time.perf_counter() - asked) * 1e3 - 2)
    return found


async def queries(url: str) -> list[float]:
    """Milliseconds of one query after the other, over the bus."""
    found = []
    sql = b'{"sql": "SELECT tag, count(*), max(at_ns) FROM events GROUP BY tag"}'
    with contextlib.suppress(asyncio.CancelledError):
        async with await Bus.connect(url, name="asker") as bus:
            while True:
                asked = time.perf_counter()
                await bus.request("sql", sql, 10)
                found.append((time.perf_counter() - asked) * 1e3)
                await asyncio.sleep(0.01)
    return found


def executemany(folder: Path, count: int, payload: int) -> float:
    """Events a second by plain inserts of the same rows into the same columns, in transactions of a thousand."""
    rows, previous = [], "0" * 64
    for seq, envelope in enumerate(made("plain", count, payload), 1):
        rows.append(link(read_message(encode(envelope)), seq, previous))
        previous = rows[-1].hash
    with duckdb.connect(folder / "plain.duckdb") as con:
        columns = ", ".join(f"c{i} {'BIGINT' if isinstance(v, int) else 'VARCHAR'}" for i, v in enumerate(rows[0]))
        con.execute(f"CREATE TABLE events ({columns})")
        insert = f"INSERT INTO events VALUES ({', '.join('?' * len(rows[0]))})"
        started = time.perf_counter()
        for start in range(0, count, 1000):
            con.begin()
            con.executemany(insert, rows[start : start + 1000])
            con.commit()
        return count / (time.perf_counter() - started)


def spread(values: list[float]) -> dict[str, float]:
    """Median, 99th percentile and largest."""
    return {
        "median": statistics.median(values),
        "p99": statistics.quantiles(values, n=100)[98] if len(values) > 1 else values[0],
        "max": max(values),
        "count": len(values),
    }


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All of it, each part once, side by side."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with embedded(home) as shown, await Bus.connect(shown, name="recorder") as bus:
            url = running(home) or shown
            drained = await drain(home, url, bus, args)
            lived = await live(home, url, bus, args)
        table = await run_sql(home, "SELECT count(*) FROM events")
        assert table.rows == ((2 * args.events,),), f"{table.rows} of {2 * args.events} events were recorded"
        plain = executemany(home, min(args.events, 3000), args.payload)
        size = log_path(home).stat().st_size
    return {
        "events": args.events,
        "payload_bytes": args.payload,
        "drain_per_second": drained,
        "live": lived,
        "executemany_per_second": plain,
        "drain_over_executemany": drained / plain,
        "live_over_executemany": lived["recorded_per_second"] / plain,
        "log_bytes": size,
        "required_per_second": REQUIRED,
        "ok": min(drained, lived["recorded_per_second"]) >= REQUIRED,
    }


def show(found: dict[str, Any]) -> None:
    """For people."""
    lived = found["live"]
    print(f"{found['events']:,} events of {found['payload_bytes']:,} bytes, durably, per second")
    print(f"  drain (stream to log)        {found['drain_per_second']:10,.0f}")
    print(f"  live (publish to commit)     {lived['recorded_per_second']:10,.0f}")
    print(f"    published meanwhile        {lived['published_per_second']:10,.0f}")
    print(f"  executemany, no bus          {found['executemany_per_second']:10,.0f}")
    print(f"  ratio drain / executemany    {found['drain_over_executemany']:10.1f}")
    print(f"  ratio live / executemany     {found['live_over_executemany']:10.1f}")
    for name, title in (("query_ms", "query meanwhile"), ("loop_stall_ms", "loop stall meanwhile")):
        values = lived[name]
        print(f"  {title:22} median {values['median']:.1f} ms, p99 {values['p99']:.1f} ms ({values['count']} samples)")
    print(f"  required {REQUIRED:,} a second: {'met' if found['ok'] else 'MISSED'}")


def as_publisher(args: argparse.Namespace) -> None:
    """The other process: says it is there, gets the address, publishes, says the last sequence."""
    print("there", flush=True)
    url = sys.stdin.readline().strip()
    print(asyncio.run(publish(url, "live", args.events, args.payload)), flush=True)


def main() -> int:
    """Exit status 1 if fewer events a second were written than required."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--payload", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--publish", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.publish:
        as_publisher(args)
        return 0
    found = asyncio.run(measure(args))
    print(json.dumps(found)) if args.json else show(found)
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
