"""The first impression: ``make demo`` in a fresh copy of this working tree, setup and search timed apart.

The copy holds what git tracks and what it would add, so neither a virtual environment nor a log of this checkout helps
it. Only the package cache is warm. The search's seconds come from the log's events (opened to closed); all before the
opening is setup: virtual environment, installation, validation of the problem, the pool's measured peaks.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _shared import RESULTS, ROOT, BenchmarkError, machine, now, save, sql, versions

QUERY = """
SELECT opened.session AS session, opened.at_ns AS opened_ns, closed.at_ns AS closed_ns, closed.body AS closed
FROM events opened JOIN events closed ON closed.session = opened.session AND closed.tag = 'session.closed.v1'
WHERE opened.tag = 'session.opened.v1' ORDER BY opened.seq LIMIT 1
"""


def copy_tree(target: Path) -> None:
    """Copy the working tree as a clone would have it, changes not committed yet included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def make_demo(clone: Path, home: Path, timeout_s: float) -> tuple[int, float, int]:
    """Run it with its output on standard error; exit status, wall seconds, start in ns since the epoch.

    Raises:
        BenchmarkError: it took longer than ``timeout_s``.
    """
    environment = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    started_ns, start = time.time_ns(), time.perf_counter()
    try:
        ran = subprocess.run(
            ["make", "demo", f"PYTHON={base_python()}"],
            cwd=clone,
            env={**environment, "KERNELSWARM_HOME": str(home)},
            stdout=sys.stderr,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"make demo was not done after {timeout_s:.0f} s") from None
    return ran.returncode, time.perf_counter() - start, started_ns


def base_python() -> str:
    """This Python outside of any virtual environment: the demo makes its own."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def measure(timeout_s: float) -> dict[str, Any]:
    """Copy, run, and read the log that the demo left.

    Raises:
        BenchmarkError: the demo failed or closed no session.
    """
    with tempfile.TemporaryDirectory(prefix="kernelswarm-demo-") as folder:
        clone, home = Path(folder) / "kernelswarm", Path(folder) / "home"
        clone.mkdir()
        home.mkdir()
        copy_tree(clone)
        status, wall, started_ns = make_demo(clone, home, timeout_s)
        if status != 0:
            raise BenchmarkError(f"make demo ended with status {status}")
        rows = sql(home, QUERY, binary=str(clone / ".venv" / "bin" / "kernelswarm"))
    if not rows:
        raise BenchmarkError("make demo closed no session")
    closed = json.loads(rows[0]["closed"])
    return {
        "total_seconds": wall,
        "setup_seconds": (rows[0]["opened_ns"] - started_ns) / 1e9,
        "search_seconds": (rows[0]["closed_ns"] - rows[0]["opened_ns"]) / 1e9,
        "win": closed.get("win", False),
        "speedup": closed.get("speedup"),
        "against": closed.get("against", ""),
        "candidates": closed.get("candidates", 0),
    }


def main() -> int:
    """Measure once and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--timeout", type=float, default=1200, help="seconds before it is given up")
    parser.add_argument("--json", action="store_true", help="print one object instead of lines")
    options = parser.parse_args()
    start = {"benchmark": "demo", "date": now(), "versions": versions(), "machine": machine()}
    try:
        facts = measure(options.timeout)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    content = {**start, **facts}
    save(RESULTS / "demo.json", content)
    print(json.dumps(content) if options.json else report(facts))
    return 0


def report(facts: dict[str, Any]) -> str:
    """The figures for people."""
    speedup = facts["speedup"]
    gain = f"{speedup['median']:.2f}x ({speedup['low']:.2f}..{speedup['high']:.2f})" if speedup else "none"
    return (
        f"make demo, whole: {facts['total_seconds']:6.1f} s\n"
        f"  setup:          {facts['setup_seconds']:6.1f} s\n"
        f"  search:         {facts['search_seconds']:6.1f} s, {facts['candidates']} candidates\n"
        f"  speedup over {facts['against'] or 'the best baseline'}: {gain}, {'a win' if facts['win'] else 'no win'}"
    )


if __name__ == "__main__":
    sys.exit(main())
