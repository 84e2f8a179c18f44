"""What an export of a million events takes, in seconds and in memory, by format.

Every format is exported by `kernelswarm export` in a process of its own, from a log that no other process has and from
one of a tenth of its events: memory that grows with the log shows as a ratio of the two. The logs are made once (a
minute for each 300,000 events) and shared with questions.py.

    python benchmarks/export.py [--events 1000000] [--formats events,grpo] [--json]
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


def exported(home: Path, format: str) -> dict[str, Any]:
    """One export: seconds, peak resident memory of its process in MB, rows, and MB written.

    Raises:
        BenchmarkError: the command failed.
    """
    with tempfile.TemporaryDirectory(prefix="kernelswarm-export-") as folder:
        command = [_shared.command(), "export", "--format", format, "--out", str(Path(folder, "out")), "--json"]
        started = time.perf_counter()
        with Path(folder, "said").open("w+") as said:
            process = subprocess.Popen(command, stdout=said, env={**os.environ, "KERNELSWARM_HOME": str(home)})
            _, status, used = os.wait4(process.pid, 0)  # the only way to know what one child held at most
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - started
            if process.returncode != 0:
                raise BenchmarkError(f"export --format {format} ended with status {process.returncode}")
            said.seek(0)
            manifest = json.load(said)
        return {
            "seconds": round(seconds, 1),
            "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
            "peak_mb": round(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6),
            "rows": manifest["rows"],
            "written_mb": round(sum(file["bytes"] for file in manifest["files"]) / 1e6, 1),
        }


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Every format on both logs."""
    formats = args.formats.split(",") if args.formats else FORMATS
    logs = []
    for events in (args.events // 10, args.events):
        home, _ = history(events, fresh=args.fresh)
        logs.append({"events": events, "log_bytes": log_path(home).stat().st_size, "formats": {}})
        for format in formats:
            print(f"{events:,} events, {format}", file=sys.stderr)
            logs[-1]["formats"][format] = exported(home, format)
    return {
        "benchmark": "export",
        "date": _shared.now(),
        "versions": _shared.versions(),
        "machine": _shared.machine(),
        "logs": logs,
    }


def show(found: dict[str, Any]) -> None:
    """For people."""
    header = ("format", "events", "seconds", "processor s", "peak MB", "rows", "written MB")
    rows = [
        (format, f"{log['events']:,}", *(f"{one[key]:,}" for key in list(one)))
        for format in found["logs"][0]["formats"]
        for log in found["logs"]
        for one in (log["formats"][format],)
    ]
    print(_shared.table(header, rows))


def main() -> int:
    """Exit status 1 if an export fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--formats", default="", help="with commas between them; by default all")
    parser.add_argument("--fresh", action="store_true", help="make the logs anew")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        found = measure(args)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    _shared.save(RESULTS / "export.json", found)
    print(json.dumps(found)) if args.json else show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
