"""Throughput of whole searches on a pool: candidates a minute judged, where their time goes, how busy each role is.

    python benchmarks/gpu_search.py rmsnorm conv1d_half path/to/problem.py --pool h200 --budget 40

A candidate is judged once its verdict is known, and it is timed if that is ``correct``; the rate is over the time from
the first plan to the last such end, and beside it over the whole session, baselines and confirmations included. Steps
are listed one by one, so that every figure can be made again from the result file. Nothing but an installed
``kernelswarm`` and this folder is needed.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from _shared import (
    PROBLEMS,
    RESULTS,
    WORKSPACE,
    BenchmarkError,
    counted,
    fresh_folder,
    machine,
    now,
    optimize,
    question,
    save,
    sql,
    table,
    versions,
)
from search import ENDS, QUERY, rates

ROLES = """
WITH here AS (SELECT * FROM steps WHERE session = '{session}'),
looked AS (
    SELECT worker, coalesce(json_extract(body, '$.report.device.seconds')::DOUBLE, 0) AS seconds
    FROM events WHERE session = '{session}' AND tag = 'candidate.profiled.v1'
),
busy AS (
    SELECT role, worker, seconds, 0.0 AS looking FROM here WHERE seconds IS NOT NULL
    UNION ALL
    SELECT 'profiler', worker, 0.0, seconds FROM looked
)
SELECT role, count(DISTINCT worker) AS workers, sum(seconds) AS busy_seconds, sum(looking) AS looking_seconds
FROM busy GROUP BY role ORDER BY role
"""
"""Only workers that did something are seen."""

STEPS = """
WITH opened AS (SELECT at_ns FROM events WHERE session = '{session}' AND tag = 'session.opened.v1')
SELECT node, role, substr(worker, strpos(worker, '.') + 1) AS worker, state, confirmation, cached,
    round(seconds, 3) AS seconds, round((steps.at_ns - opened.at_ns) / 1e9, 3) AS ended
FROM steps, opened WHERE session = '{session}' ORDER BY steps.at_ns
"""
"""Every step with the second of the session at which it ended; of a worker's name all but the host."""

AFTER_BASELINES = """
WITH here AS (SELECT * FROM events WHERE session = '{session}'),
ready AS (SELECT min(at_ns) AS at_ns FROM here WHERE tag = 'baselines.measured.v1'),
ends AS (
    SELECT node, min(at_ns) AS at_ns FROM here
    WHERE tag IN {ends} AND node IN (SELECT node FROM here WHERE tag = 'candidate.proposed.v1') GROUP BY node
)
SELECT count(*) AS candidates, (max(ends.at_ns) - min(ready.at_ns)) / 1e9 AS seconds
FROM ends, ready WHERE ends.at_ns > ready.at_ns
"""
"""The same rate once timing can begin: the first candidates are compiled and verified by then."""

OPENED = """
SELECT json_extract(body, '$.hardware') AS hardware, json_extract(body, '$.policy_options') AS options
FROM events WHERE session = '{session}' AND tag = 'session.opened.v1'
"""


def measured(home: Path, session: str) -> dict[str, Any]:
    """All figures of a closed session, which is the latest one in ``home``.

    Raises:
        BenchmarkError: the log cannot be asked, or no candidate came to an end.
    """

    def ask(query: str) -> list[dict[str, Any]]:
        return sql(home, query.format(session=session))

    figures = rates(ask(QUERY))
    (opened,) = ask(OPENED)
    (later,) = sql(home, AFTER_BASELINES.format(session=session, ends=ENDS))
    return {
        "session": session,
        **figures,
        "after_baselines": {
            **later,
            "per_minute": 60 * later["candidates"] / later["seconds"] if later["seconds"] else None,
        },
        "policy_options": _read(opened["options"]),
        "hardware": _read(opened["hardware"]),
        "roles": [shared(role, figures["session_seconds"]) for role in ask(ROLES)],
        "stages": question(home, "time_per_stage", sessions=1),
        "idle_time": question(home, "idle_time"),
        "steps": ask(STEPS),
    }


def shared(role: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A role's row with the share of the session's time that each of its workers was at work, looks included."""
    busy = role["busy_seconds"] + role["looking_seconds"]
    return {**role, "busy_share": busy / (role["workers"] * seconds)}


def _read(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def report(name: str, facts: dict[str, Any]) -> str:
    """The figures for people."""
    stages = [
        (row["stage"], f"{row['nodes']}", *(f"{row[key]:.2f}" for key in ("median_seconds", "p90_seconds", "share")))
        for row in facts["stages"]
    ]
    roles = [
        (
            row["role"], f"{row['workers']}", f"{row['busy_seconds']:.1f}", f"{row['looking_seconds']:.1f}",
            f"{row['busy_share']:.0%}",
        )
        for row in facts["roles"]
    ]  # fmt: skip
    return (
        f"{name} ({facts['session']})\n"
        f"candidates judged a minute: {facts['candidates_per_minute']:.1f} "
        f"({facts['candidates']} in {facts['search_seconds']:.1f} s, first plan to last end); of the whole session "
        f"{facts['candidates_per_minute_of_session']:.1f} ({facts['session_seconds']:.1f} s)\n{timed(facts)}\n\n"
        + table(("stage, queueing included", "nodes", "median s", "90 % s", "share"), stages)
        + "\n\n"
        + table(("role", "workers", "busy s", "looking s", "busy"), roles)
    )


def timed(facts: dict[str, Any]) -> str:
    """The rate once the baselines are there, as a sentence."""
    later = facts["after_baselines"]
    if later["per_minute"] is None:
        return "nothing ended after the baselines were there"
    return (
        f"once the baselines are there: {later['per_minute']:.1f} ({later['candidates']} in {later['seconds']:.1f} s), "
        f"{facts['policy_options'].get('width', 'the default number of')} nodes under way"
    )


def found_problem(name: str) -> Path:
    """A file, or a shipped problem by its name.

    Raises:
        BenchmarkError: it is neither.
    """
    path = Path(name) if name.endswith(".py") else PROBLEMS / f"{name}.py"
    if not path.exists():
        raise BenchmarkError(f"no problem {name}: give a file, or a name of problems/")
    return path.resolve()


def main() -> int:
    """Search each problem once, one after another; results are saved after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", metavar="PROBLEM", help="a file, or the name of a shipped problem")
    parser.add_argument("--pool", default="h200")
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, help="one home for all, kept; by default a fresh one for each problem")
    parser.add_argument("--results", type=Path, default=RESULTS / "gpu_search.json")
    parser.add_argument("--json", action="store_true", help="print the results in place of the tables")
    chosen = parser.parse_args()
    content = {
        "benchmark": "gpu_search", "date": now(), "versions": versions(), "machine": machine(),
        "pool": chosen.pool, "budget": chosen.budget, "seed": chosen.seed,
    }  # fmt: skip
    runs: dict[str, Any] = {}
    try:
        for problem in [found_problem(name) for name in chosen.problems]:
            home = chosen.home or fresh_folder(WORKSPACE / "gpu_search" / problem.stem)
            result = optimize(problem, home=home, budget=chosen.budget, seed=chosen.seed, pool=chosen.pool)
            # With one home for all the same problem may be searched again, its baselines kept.
            name = problem.stem if problem.stem not in runs else f"{problem.stem} {len(runs) + 1}"
            runs[name] = measured(home, result["session"]) | {"speedup": counted(result)}
            save(chosen.results, {**content, "problems": runs})
            if not chosen.json:
                print(report(name, runs[name]), end="\n\n", flush=True)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps({**content, "problems": runs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
