"""What an export of a million events takes, in seconds and in memory, by format.

Every format is exported by `kernelswarm export` in a process of its own, from a log that no other process has and from
one of a tenth of its events: memory that grows with the log shows as a ratio of the two. Beside them stands what DuckDB
alone takes to copy the table of events to one Parquet file: nothing checked, nothing redacted, nothing joined. The logs
are made once (a minute for each 300,000 events) and shared with questions.py. What was measured is kept, format by
format; the same call at the same commit goes on where an interrupted one stopped.

    python benchmarks/export.py [--events 1000000] [--formats events,grpo] [--fresh] [--json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _shared
from _shared import RESULTS, BenchmarkError
from questions import history

from kernelswarm.store import log_path
from kernelswarm.store.export import FORMATS

COPY = """
import duckdb, sys
log, out = sys.argv[1:]
con = duckdb.connect(log, read_only=True, config={"threads": 1, "memory_limit": "512MB"})
con.execute(f"COPY (SELECT * FROM events) TO '{out}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 8192)")
"""
"""What an export is compared with."""


def ran(command: list[str], home: Path, output: Path) -> dict[str, Any]:
    """Seconds, and what the process held at most in MB; its standard output goes to ``output``.

    Raises:
        BenchmarkError: the command failed.
    """
    started = time.perf_counter()
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, env={**os.environ, "KERNELSWARM_HOME": str(home)})
        _, status, used = os.wait4(process.pid, 0)  # the only way to know what one child held at most
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkError(f"{' '.join(command[1:4])} ended with status {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6),
    }


def copied(home: Path) -> dict[str, Any]:
    """The plain copy of all events."""
    with tempfile.TemporaryDirectory(prefix="kernelswarm-export-") as folder:
        out = Path(folder, "events.parquet")
        command = [sys.executable, "-c", COPY, str(log_path(home)), str(out)]
        return ran(command, home, Path(folder, "said")) | {"written_mb": round(out.stat().st_size / 1e6, 1)}


def exported(home: Path, format: str, events: int) -> dict[str, Any]:
    """One export, and the plain copy right after it."""
    with tempfile.TemporaryDirectory(prefix="kernelswarm-export-") as folder:
        output = Path(folder, "said")
        command = [_shared.command(), "export", "--format", format, "--out", str(Path(folder, "out")), "--json"]
        figures = ran(command, home, output)
        manifest = json.loads(output.read_text())
    copy = copied(home)
    return figures | {
        "rows": manifest["rows"],
        "written_mb": round(sum(file["bytes"] for file in manifest["files"]) / 1e6, 1),
        "events_per_second": round(events / figures["seconds"]),
        "events_per_processor_second": round(events / figures["processor_seconds"]),
        "copy": copy,
        "times_copy": round(figures["processor_seconds"] / copy["processor_seconds"], 1),
    }


def kept(path: Path, versions: dict[str, str], *, fresh: bool) -> dict[str, Any]:
    """What an interrupted call of the same versions measured, by number of events and format; else nothing."""
    if fresh or not path.exists():
        return {}
    results = json.loads(path.read_text())
    return results["logs"] if results["versions"] == versions else {}


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Every format on both logs."""
    formats = args.formats.split(",") if args.formats else FORMATS
    versions = _shared.versions()
    logs = kept(args.results, versions, fresh=args.fresh)
    results = {
        "benchmark": "export",
        "date": _shared.now(),
        "versions": versions,
        "machine": _shared.machine(),
        "logs": logs,
    }
    for events in (args.events // 10, args.events):
        home, _ = history(events, fresh=args.fresh)
        log = logs.setdefault(str(events), {"log_bytes": log_path(home).stat().st_size, "formats": {}})
        for format in formats:
            if format not in log["formats"]:
                print(f"{events:,} events, {format}", file=sys.stderr)
                log["formats"][format] = exported(home, format, events)
                _shared.save(args.results, results)
    return results


def show(results: dict[str, Any]) -> None:
    """For people."""
    shown = (
        "seconds",
        "processor_seconds",
        "events_per_processor_second",
        "times_copy",
        "peak_mb",
        "rows",
        "written_mb",
    )
    header = ("format", "events", "seconds", "processor s", "events/processor s", "times copy", "peak MB", "rows", "MB")
    rows = [
        (format, f"{int(events):,}", *(f"{figures[key]:,}" for key in shown))
        for format in FORMATS
        for events, log in results["logs"].items()
        if (figures := log["formats"].get(format))
    ]
    print(_shared.table(header, rows))


def main() -> int:
    """Exit status 1 if an export fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--formats", default="", help="with commas between them; by default all")
    parser.add_argument("--fresh", action="store_true", help="make the logs anew, measure all")
    parser.add_argument("--results", type=Path, default=RESULTS / "export.json")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        results = measure(args)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(results)) if args.json else show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
