"""How many events a second are written down durably, and how long queries wait meanwhile.

Two ways through a real NATS server into the log. *Drain*: the events lie in the stream, a recorder starts and is timed
until the last one is committed. *Live*: another process publishes while the recorder writes, from the first publish to
the last commit; meanwhile queries are asked over the bus, and the recorder's event loop is watched for stalls, because
agents live in it. Live is measured three times: with plain events of one size, with the events of real sessions (whose
typed columns are filled), and with those while somebody's endless join runs. Beside them, in the same run and on the
same disk, the same rows by plain ``executemany``.

    python benchmarks/log.py [--events 20000] [--payload 1000] [--repeat 3] [--json]
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _shared
import duckdb
from _history import Bodies, session
from _shared import RESULTS

from kernelswarm.bus import Bus, embedded, running
from kernelswarm.schemas import Envelope, InputError, StopRequested, decode_envelope, encode, seal
from kernelswarm.store import recording, run_sql
from kernelswarm.store.chain import link, read_message

REQUIRED = 10_000
"""Events a second that have to be written."""

CHUNK = 2000
"""Events that the publisher hands to the bus at a time."""


ENDLESS = "SELECT count(*) FROM events a, events b, events c, events d"
"""A query that runs until it is stopped."""


def real(number: int, count: int) -> list[Envelope]:
    """Events of whole sessions; another ``number`` means others."""
    bodies = Bodies(random.Random(number))
    sessions = itertools.chain.from_iterable(session(bodies, number * 10_000 + index) for index in itertools.count())
    return [decode_envelope(data) for data in itertools.islice(sessions, count)]


def made(session: str, count: int, payload: int) -> list[Envelope]:
    """Events of ``payload`` bytes each, and the envelope."""
    who = {"pool": "bench", "node": "n1", "cause": "", "agent": "bench", "worker": "bench", "at_ns": time.time_ns()}
    return [seal(StopRequested(reason="x" * payload), session=session, index=i, **who) for i in range(count)]


async def publish(url: str, envelopes: list[Envelope]) -> int:
    """Publish all of them; the highest sequence."""
    last = 0
    async with await Bus.connect(url, name="publisher") as bus:
        for start in range(0, len(envelopes), CHUNK):
            last = max(last, *await bus.publish_many(envelopes[start : start + CHUNK]))
    return last


async def drain(home: Path, url: str, bus: Bus, args: argparse.Namespace) -> float:
    """Events a second from a full stream into the log."""
    last = await publish(url, made("drain", args.events, args.payload))
    started = time.perf_counter()
    async with recording(home, bus) as recorder:
        await recorder.recorded(last)
        return args.events / (time.perf_counter() - started)


async def live(
    home: Path, url: str, bus: Bus, args: argparse.Namespace, *, number: int, hostile: bool = False
) -> dict[str, Any]:
    """Events a second from a publisher in another process, with queries and the loop's stalls meanwhile.

    ``number`` 0 means plain events, others the events of sessions.
    """
    command = [sys.executable, __file__, "--publish", str(number), "--events", str(args.events)]
    command += ["--payload", str(args.payload)]
    async with recording(home, bus) as recorder:
        await recorder.started.wait()
        pipe = asyncio.subprocess.PIPE
        publisher = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        await publisher.stdout.readline()
        watched = asyncio.create_task(stalls()), asyncio.create_task(queries(url))
        endless = asyncio.create_task(endlessly(home, bus)) if hostile else None
        started, worked = time.perf_counter(), time.process_time()
        publisher.stdin.write(f"{url}\n".encode())
        last = int(await publisher.stdout.readline())
        published = time.perf_counter() - started
        await recorder.recorded(last)
        recorded, worked = time.perf_counter() - started, time.process_time() - worked
        for task in watched:
            task.cancel()
        stalled, query_ms = [await task for task in watched]
        if endless is not None:
            endless.cancel()
            await asyncio.gather(endless, return_exceptions=True)
        await publisher.wait()
    return {
        "published_per_second": args.events / published,
        "recorded_per_second": args.events / recorded,
        "processor_us_per_event": worked / args.events * 1e6,
        "query_ms": spread(query_ms),
        "loop_stall_ms": spread(stalled),
    }


async def stalls() -> list[float]:
    """How much later than asked a task of this loop runs, milliseconds."""
    delays = []
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.002)
            delays.append((time.perf_counter() - started) * 1e3 - 2)
    return delays


async def queries(url: str) -> list[float]:
    """Milliseconds of one query after the other, over the bus."""
    latencies = []
    sql = b'{"sql": "SELECT tag, count(*), max(at_ns) FROM events GROUP BY tag"}'
    with contextlib.suppress(asyncio.CancelledError):
        async with await Bus.connect(url, name="asker") as bus:
            while True:
                started = time.perf_counter()
                await bus.request("sql", sql, 10)
                latencies.append((time.perf_counter() - started) * 1e3)
                await asyncio.sleep(0.01)
    return latencies


async def endlessly(home: Path, bus: Bus) -> None:
    """Ask one endless query after the other."""
    while True:
        with contextlib.suppress(InputError):
            await run_sql(home / "elsewhere", ENDLESS, bus=bus, timeout=1)


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


async def round_of(args: argparse.Namespace) -> dict[str, Any]:
    """Each part once, on a home of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with embedded(home) as shown, await Bus.connect(shown, name="recorder") as bus:
            url = running(home) or shown
            drained = await drain(home, url, bus, args)
            lived = {
                "plain": await live(home, url, bus, args, number=0),
                "sessions": await live(home, url, bus, args, number=1),
                "hostile": await live(home, url, bus, args, number=2, hostile=True),
            }
        table = await run_sql(home, "SELECT count(*) FROM events")
        assert table.rows == ((4 * args.events,),), f"{table.rows} of {4 * args.events} events were recorded"
        plain = executemany(home, min(args.events, 3000), args.payload)
    return {"drain_per_second": drained, "live": lived, "executemany_per_second": plain}


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Several rounds; what counts is the median of each figure."""
    rounds = [await round_of(args) for _ in range(args.repeat)]
    rates = {name: [result["live"][name]["recorded_per_second"] for result in rounds] for name in rounds[0]["live"]}
    rates["drain"] = [result["drain_per_second"] for result in rounds]
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "benchmark": "log",
        "date": _shared.now(),
        "versions": _shared.versions(),
        "machine": _shared.machine(),
        "events": args.events,
        "payload_bytes": args.payload,
        "per_second": medians,
        "executemany_per_second": statistics.median(result["executemany_per_second"] for result in rounds),
        "rounds": rounds,
        "required_per_second": REQUIRED,
        "ok": min(medians["plain"], medians["sessions"]) >= REQUIRED,
    }


def show(results: dict[str, Any]) -> None:
    """For people."""
    titles = {
        "drain": "drain (stream to log)",
        "plain": f"live, {results['payload_bytes']:,} bytes each",
        "sessions": "live, events of sessions",
        "hostile": "live, beside endless joins",
    }
    print(
        f"{results['events']:,} events, durably, per second, while queried; median of {len(results['rounds'])} rounds"
    )
    for name, title in titles.items():
        print(f"  {title:28} {results['per_second'][name]:10,.0f}")
    print(f"  {'executemany, no bus':28} {results['executemany_per_second']:10,.0f}")
    for name in titles.keys() & results["rounds"][0]["live"].keys():
        lived = results["rounds"][0]["live"][name]
        print(f"  {name}: {lived['processor_us_per_event']:.0f} us of processor time an event, queries included")
        for key, title in (("query_ms", "query meanwhile"), ("loop_stall_ms", "loop stall")):
            values = lived[key]
            print(f"  {name}: {title} median {values['median']:.1f} ms, p99 {values['p99']:.1f} ms ({values['count']})")
    print(f"  required {REQUIRED:,} a second: {'met' if results['ok'] else 'MISSED'}")


def as_publisher(args: argparse.Namespace) -> None:
    """The other process: says it is there, gets the address, publishes, says the last sequence."""
    envelopes = real(args.publish, args.events) if args.publish else made("live", args.events, args.payload)
    print("there", flush=True)
    url = sys.stdin.readline().strip()
    print(asyncio.run(publish(url, envelopes)), flush=True)


def main() -> int:
    """Exit status 1 if fewer events a second were written than required."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--payload", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--publish", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.publish is not None:
        as_publisher(args)
        return 0
    results = asyncio.run(measure(args))
    _shared.save(RESULTS / "log.json", results)
    print(json.dumps(results)) if args.json else show(results)
    return 0 if results["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
