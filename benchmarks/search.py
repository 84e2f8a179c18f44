"""Speed of the search: candidates a minute on one problem, counted from the log's events.

A candidate counts once it is proposed and at its end: verified and timed, or failed for good in the compiler, the
verifier or the profiler. Plans for which no source was made do not count. The rate is over the time from the first
plan to the last such end; the rate over the whole session, baselines included, stands beside it.

``--beside CHECKOUT`` runs the same searches by another checkout as well, in turns, each with the Python of its own
``.venv``: is this one as fast as that one was? Both write their ``results/search.json``.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from _shared import (
    PROBLEMS,
    RESULTS,
    ROOT,
    WORKSPACE,
    BenchmarkError,
    fresh_folder,
    machine,
    now,
    optimize,
    save,
    sql,
    table,
    versions,
)

ENDS = (
    "candidate.profiled.v1",
    "candidate.profiling_failed.v1",
    "candidate.verification_failed.v1",
    "candidate.compilation_failed.v1",
)

QUERY = f"""
WITH here AS (SELECT * FROM events WHERE session = '{{session}}'),
ends AS (
    SELECT node, arg_min(tag, at_ns) AS tag, min(at_ns) AS at_ns
    FROM here WHERE tag IN {ENDS} AND node IN (SELECT node FROM here WHERE tag = 'candidate.proposed.v1')
    GROUP BY node
)
SELECT
    ends.tag AS ended, count(*) AS candidates, max(ends.at_ns) AS last_ns,
    (SELECT min(at_ns) FROM here WHERE tag = 'node.planned.v1') AS planned_ns,
    (SELECT min(at_ns) FROM here WHERE tag = 'session.opened.v1') AS opened_ns,
    (SELECT max(at_ns) FROM here WHERE tag = 'session.closed.v1') AS closed_ns
FROM ends GROUP BY ends.tag ORDER BY candidates DESC
"""


def rates(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures from the query's rows: counts by end, seconds, candidates a minute.

    Raises:
        BenchmarkError: no candidate came to an end.
    """
    if not rows:
        raise BenchmarkError("no candidate came to an end: see the session with kernelswarm show")
    count = sum(row["candidates"] for row in rows)
    first = rows[0]
    searching = (max(row["last_ns"] for row in rows) - first["planned_ns"]) / 1e9
    session = (first["closed_ns"] - first["opened_ns"]) / 1e9
    return {
        "candidates": count,
        "by_end": {row["ended"]: row["candidates"] for row in rows},
        "search_seconds": searching,
        "session_seconds": session,
        "candidates_per_minute": 60 * count / searching,
        "candidates_per_minute_of_session": 60 * count / session,
    }


def main() -> int:
    """Search twice, print both rates: first with baselines to compile, then with the ones that were kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problem", default="rmsnorm", help="name of a shipped problem")
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", type=Path, help="checkout that runs the same, in turns; 12 candidates are enough")
    parser.add_argument("--turns", type=int, default=2, help="of both checkouts, with --beside")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    problem = PROBLEMS / f"{options.problem}.py"
    if not problem.exists():
        print(f"no problem named {options.problem}: see the files in problems/", file=sys.stderr)
        return 2
    if options.beside is not None:
        return beside(options)
    home = fresh_folder(WORKSPACE / "search" / options.problem)
    start = {"benchmark": "search", "date": now(), "versions": versions(), "machine": machine()}
    try:
        runs = {}
        for name in ("first", "later"):
            result = optimize(problem, home=home, budget=options.budget, seed=options.seed)
            runs[name] = rates(sql(home, QUERY.format(session=result["session"])))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    content = {**start, "problem": options.problem, "budget": options.budget, "seed": options.seed, **runs}
    save(RESULTS / "search.json", content)
    print(json.dumps(content) if options.json else "\n\n".join(report(name, facts) for name, facts in runs.items()))
    return 0


def beside(options: argparse.Namespace) -> int:
    """Candidates a minute of this checkout and of another one, and their ratio."""
    checkouts = {"here": ROOT, "beside": options.beside.resolve()}
    if options.turns < 1 or not _python(checkouts["beside"]).exists():
        print(f"--beside needs 1 turn or more, and a checkout with {_python(options.beside)}", file=sys.stderr)
        return 2
    rates_of: dict[str, list[float]] = {name: [] for name in checkouts}
    for turn in range(options.turns):
        # The first of a turn is the other one each time.
        for name in sorted(checkouts, reverse=bool(turn % 2)):
            search = ("--problem", options.problem, "--budget", str(options.budget), "--seed", str(options.seed + turn))
            command = (str(_python(checkouts[name])), "benchmarks/search.py", *search, "--json")
            done = subprocess.run(command, cwd=checkouts[name], stdout=subprocess.PIPE, text=True)
            if done.returncode:
                return 1  # it has printed why
            rates_of[name].append(json.loads(done.stdout)["later"]["candidates_per_minute"])
    ratio = geometric_mean(rates_of["here"]) / geometric_mean(rates_of["beside"])
    content = {"checkout": str(checkouts["beside"]), "candidates_per_minute": rates_of, "ratio": ratio}
    rows = [(name, ", ".join(f"{rate:.1f}" for rate in rates)) for name, rates in rates_of.items()]
    print(json.dumps(content) if options.json else f"{table(('checkout', 'a minute'), rows)}\nratio: {ratio:.2f}")
    return 0


def _python(checkout: Path) -> Path:
    return checkout / ".venv" / "bin" / "python"


def report(name: str, facts: dict[str, Any]) -> str:
    """The figures for people."""
    ends = table(("ended with", "candidates"), [(tag, str(count)) for tag, count in facts["by_end"].items()])
    return (
        f"{name} session of the problem\n{ends}\n"
        f"fully evaluated candidates a minute: {facts['candidates_per_minute']:.1f} "
        f"({facts['candidates']} in {facts['search_seconds']:.1f} s, first plan to last end)\n"
        f"over the whole session, baselines included: {facts['candidates_per_minute_of_session']:.1f} "
        f"({facts['session_seconds']:.1f} s)"
    )


if __name__ == "__main__":
    sys.exit(main())
