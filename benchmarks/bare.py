"""Does an author win more with the judge than with a timer of its own? One author's kernels, bare and through sessions.

``FOLDER/problems/NAME.py`` with ``FOLDER/bare/NAME.py`` and ``through`` beside: what an author wrote who had the
problem file and ``_bare_timer.py``, and what the same author handed in to a session. What the bare author claims is
what that timer prints; then the kernels are evaluated in turns, against eager, ``torch.compile`` and max-autotune in
ordinary processes.

Rows are kept after each problem in ``results/bare.json``, the bare kernels with them: an interrupted run goes on.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _shared import RESULTS, WORKSPACE, BenchmarkError, counted, machine, now, save, table, versions
from authors import Row, judged

WAYS = ("bare", "through")
HEADER = ("problem", "bare claims, over eager", "bare", "through Kernelswarm")


def claimed(problem: Path, source: Path) -> Row:
    """What the bare author's timer says of ``source``."""
    timer = Path(__file__).with_name("_bare_timer.py")
    ran = subprocess.run(
        [sys.executable, timer, problem, source], stdout=subprocess.PIPE, text=True, timeout=600, check=False
    )
    if ran.returncode != 0:
        raise BenchmarkError(f"{source} does not run (status {ran.returncode})")
    result: Row = json.loads(ran.stdout)
    return result


def measured(problem: Path, options: argparse.Namespace) -> Row:
    """The row of a problem."""
    sources = {way: options.folder / way / problem.name for way in WAYS}
    row: Row = {"problem": problem.stem, "source": sources["bare"].read_text(encoding="utf-8")}
    row["claimed"] = claimed(problem, sources["bare"])
    return row | {way: judged(problem, source, options) for way, source in sources.items()}


def is_win(evaluation: Row) -> bool:
    """Whether it is right, and its whole interval above 1."""
    speedup = counted(evaluation)
    return evaluation["verdict"] == "correct" and speedup is not None and bool(speedup["low"] > 1)


def shown(evaluation: Row) -> str:
    """Its speedup, or its verdict."""
    speedup = counted(evaluation)
    if evaluation["verdict"] != "correct" or speedup is None:
        return str(evaluation["verdict"])
    return f"{speedup['median']:.2f}x" + ("" if is_win(evaluation) else ", no win")


def main() -> int:
    """Run what was not run yet, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="problems/, bare/ and through/, with a file of each name")
    parser.add_argument("--pool", default="cpu")
    parser.add_argument("--home", type=Path, default=WORKSPACE / "bare")
    parser.add_argument("--kept", type=Path, default=RESULTS / "bare.json", help="the file that rows are kept in")
    options = parser.parse_args()
    content: dict[str, Any] = {"benchmark": "bare", "date": now(), "versions": versions(), "machine": machine()}
    content["rows"] = {}
    if options.kept.is_file():
        content = json.loads(options.kept.read_text(encoding="utf-8"))
    options.home.mkdir(parents=True, exist_ok=True)
    try:
        for problem in sorted((options.folder / "problems").glob("*.py")):
            if problem.stem not in content["rows"]:
                content["rows"][problem.stem] = measured(problem, options)
                save(options.kept, content)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    rows = [
        (
            name,
            f"{row['claimed']['eager_ms'] / row['claimed']['kernel_ms']:.2f}x",
            *(shown(row[way]) for way in WAYS),
        )
        for name, row in content["rows"].items()
    ]
    print(table(HEADER, rows))
    counts = {way: sum(is_win(row[way]) for row in content["rows"].values()) for way in WAYS}
    print(f"\nverified wins: {counts['bare']} bare, {counts['through']} through Kernelswarm, of {len(rows)} problems")
    return 0


if __name__ == "__main__":
    sys.exit(main())
