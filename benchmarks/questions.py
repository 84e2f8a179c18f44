"""How long a log of a million events takes to open, and each named question on it.

The log is made once (about a minute, through the recorder's own way of writing) and kept under
``kernelswarm-out/benchmarks/questions``. Every question is asked several times with its default parameters as
`kernelswarm sql --question` asks it, in the query sandbox, on one thread; so is a view as of the middle of the log.

    python benchmarks/questions.py [--events 1000000] [--repeat 7] [--fresh] [--json]
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _shared
from _history import write_history
from _shared import RESULTS, WORKSPACE

from kernelswarm.store import Log, Table, log_path, questions, run_sql
from kernelswarm.store.query import Query, answer

REQUIRED_OPEN_S = 1.0
REQUIRED_QUESTION_MS = 200.0
ANCESTORS = {"session": "", "node": "n040"}


def history(events: int, *, fresh: bool) -> tuple[Path, float]:
    """Home with a log of so many events, and the seconds that making it took (0 if it was there)."""
    home = WORKSPACE / "questions" / str(events)
    if fresh or not log_path(home).exists():
        _shared.fresh_folder(home)
        started = time.perf_counter()
        write_history(log_path(home), events)
        return home, time.perf_counter() - started
    return home, 0.0


def opened(home: Path, *, read_only: bool, repeat: int) -> list[float]:
    """Seconds from nothing to the first answer."""
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        with Log.open(log_path(home), read_only=read_only) as log:
            answer(log, Query(sql="SELECT count(*) FROM sessions"))
            seconds.append(time.perf_counter() - started)
    return seconds


def timed(ask: Callable[[], Table], repeat: int) -> dict[str, Any]:
    """Milliseconds of each of several runs, after one that is not counted, and the rows that came.

    The processor's time is said as well: on a machine that others use it is nearer to what an idle one would take.
    """
    rows = len(ask().rows)
    elapsed, worked = [], []
    for _ in range(repeat):
        started, began = time.perf_counter(), time.process_time()
        ask()
        elapsed.append((time.perf_counter() - started) * 1e3)
        worked.append((time.process_time() - began) * 1e3)
    return {
        "ms": statistics.median(elapsed),
        "max_ms": max(elapsed),
        "processor_ms": statistics.median(worked),
        "rows": rows,
    }


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Everything, side by side."""
    home, made_s = history(args.events, fresh=args.fresh)
    writing, reading = (opened(home, read_only=read_only, repeat=args.repeat) for read_only in (False, True))
    some = asyncio.run(run_sql(home, "SELECT session FROM sessions ORDER BY at_ns LIMIT 1 OFFSET 50")).rows[0][0]
    with Log.open(log_path(home), read_only=True) as log:
        events = len(log)
        timings = {}
        for question in questions():
            given = ANCESTORS | {"session": some} if question.name == "ancestors" else {}
            query = Query(sql=question.sql, params=question.values(given))
            timings[question.name] = timed(lambda query=query: answer(log, query), args.repeat)
        middle = Query(sql="SELECT count(*), max(speedup) FROM sessions", as_of=str(events // 2))
        then = timed(lambda: answer(log, middle), args.repeat)
    worst = max(value["ms"] for value in timings.values())
    return {
        "benchmark": "questions",
        "date": _shared.now(),
        "versions": _shared.versions(),
        "machine": _shared.machine(),
        "events": events,
        "log_bytes": log_path(home).stat().st_size,
        "made_seconds": made_s,
        "open_for_writing_s": statistics.median(writing),
        "open_for_reading_s": statistics.median(reading),
        "as_of_ms": then["ms"],
        "questions": timings,
        "slowest_ms": worst,
        "ok": worst < REQUIRED_QUESTION_MS and statistics.median(writing) < REQUIRED_OPEN_S,
    }


def show(results: dict[str, Any]) -> None:
    """For people."""
    print(
        f"{results['events']:,} events, {results['log_bytes'] / 1e6:,.0f} MB; made in {results['made_seconds']:.0f} s"
    )
    print(
        f"  open, to the first answer    {results['open_for_writing_s']:8.3f} s  "
        f"(read-only {results['open_for_reading_s']:.3f} s)"
    )
    print(f"  a view as of the middle      {results['as_of_ms']:8.1f} ms")
    for name, value in sorted(results["questions"].items(), key=lambda item: -item[1]["ms"]):
        late = "  MISSED" if value["ms"] >= REQUIRED_QUESTION_MS else ""
        times = f"{value['ms']:8.1f} ms, slowest {value['max_ms']:.0f}, processor {value['processor_ms']:.0f}"
        print(f"  {name:28} {times}, {value['rows']} rows{late}")


def main() -> int:
    """Exit status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--fresh", action="store_true", help="make the log anew")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = measure(args)
    _shared.save(RESULTS / "questions.json", results)
    print(json.dumps(results)) if args.json else show(results)
    return 0 if results["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
