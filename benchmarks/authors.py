"""Do outside authors beat the generator? The best kernel of each on the same problems, judged in turns.

``FOLDER/problems/NAME.py`` with ``FOLDER/generator/NAME.py`` and ``FOLDER/outside/NAME.py`` beside: what a session with
both kinds of authors left. Each kernel is evaluated ``--turns`` times, the two in turns, each against eager,
``torch.compile`` and max-autotune in ordinary processes. What counts is the geometric mean of its turns over the best
baseline; wrong kernels, and problems without one, count as 1: a user keeps PyTorch there.

``--sessions HOME`` names the log of those sessions: rows get their hand-ins, the wrong ones among them, and minutes.
Without a folder a row is what its session says: both authors' best, timed by turns with the baselines, as finalists
where they were confirmed.

Rows are kept after each problem in ``results/authors.json``, of another pool than the processor's in
``results/authors_POOL.json``: an interrupted run goes on where it was.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from _shared import (
    RESULTS,
    WORKSPACE,
    BenchmarkError,
    counted,
    geometric_mean,
    kernelswarm,
    machine,
    now,
    question,
    save,
    sql,
    table,
    versions,
)

AUTHORS = ("generator", "outside")
HEADER = ("problem", *AUTHORS, "together over generator")
LARGE = 1.3
"""Where the outside author's is so many times as fast, it is counted."""

Row = dict[str, Any]


def judged(problem: Path, source: Path, options: argparse.Namespace) -> Row:
    """One evaluation: verdict, reason, and the speedup over the best baseline."""
    ran = kernelswarm(
        "evaluate", str(problem), str(source), "--pool", options.pool, "--no-profile", "--json", home=options.home
    )
    if not ran.stdout.strip():
        raise BenchmarkError(f"{source} was not judged (status {ran.returncode})")
    result: Row = json.loads(ran.stdout)
    return {key: result[key] for key in ("verdict", "reason", "speedup", "ordinary_speedup", "times_ms")}


def measured(problem: Path, options: argparse.Namespace) -> Row:
    """The row of a problem."""
    sources = {author: options.folder / author / problem.name for author in AUTHORS}
    row: Row = {"problem": problem.stem, **{author: [] for author in AUTHORS}}
    for _ in range(options.turns):
        for author, source in sources.items():
            if source.exists():
                row[author].append(judged(problem, source, options))
    return row | {f"{author}_speedup": worth(row[author]) for author in AUTHORS}


MEASURED = """
SELECT s.problem, c.author = 'generator' AS generated, m.event, m.node, m.confirmation, m.series, m.median_ms,
       m.speedup AS median, m.speedup_low AS low, m.speedup_high AS high, m.best
FROM measurements m JOIN candidates c USING (session, node) JOIN sessions s USING (session)
WHERE NOT m.ordinary AND m.verdict = 'correct' ORDER BY m.at_ns
"""


def in_sessions(home: Path) -> dict[str, Row]:
    """The rows of all problems that the sessions of ``home`` were about, by problem."""
    runs: dict[str, list[Row]] = {}
    for measured in sql(home, MEASURED):
        runs.setdefault(measured["event"], []).append(measured)
    rows: dict[str, Row] = {}
    for series in runs.values():
        (best,) = (baseline for baseline in series if baseline["best"])
        row = rows.setdefault(best["problem"], {"problem": best["problem"], **{author: [] for author in AUTHORS}})
        row["generator" if best["generated"] else "outside"].append(
            {
                "verdict": "correct",
                "reason": None,
                "confirmed": best["confirmation"],
                "speedup": {key: best[key] for key in ("median", "low", "high")} | {"against": best["series"]},
                "times_ms": {implementation["series"]: implementation["median_ms"] for implementation in series},
            }
        )
    for row in rows.values():
        for author in AUTHORS:
            turns = sorted(row[author], key=lambda turn: (turn["confirmed"], turn["speedup"]["median"]))
            row[author] = turns[-1:]
            row[f"{author}_speedup"] = worth(row[author])
    return rows


def handed_in(home: Path, problem: str) -> Row:
    """What outside authors handed in for ``problem`` in the sessions of ``home``; nothing if there were none."""
    agents = question(home, "outside_authors", problem=problem)
    if not agents:
        return {}
    sessions = sql(home, f"SELECT sum(seconds) / 60 AS minutes FROM sessions WHERE problem = '{problem}'")
    return {
        "hand_ins": sum(agent["hand_ins"] for agent in agents),
        "wrong_hand_ins": sum(agent["judged"] - agent["correct"] for agent in agents),
        "minutes": round(sessions[0]["minutes"], 1),
    }


def worth(turns: list[Row]) -> float:
    """What a kernel is worth over the best baseline; 1 where it is wrong or slower: PyTorch's is kept then."""
    speedups = [counted(turn) for turn in turns]
    if not turns or None in speedups:
        return 1.0
    return max(1.0, geometric_mean(speedup["median"] for speedup in speedups if speedup) or 1.0)


def summarise(content: Row) -> None:
    """Both goals."""
    ratios = [together(row) for row in content["rows"].values()]
    content["together_over_generator"] = geometric_mean(ratios)
    content["outside_wins_largely"] = sum(ratio >= LARGE for ratio in ratios)


def together(row: Row) -> float:
    """The better of both over the generator's."""
    return float(max(row["generator_speedup"], row["outside_speedup"]) / row["generator_speedup"])


def main() -> int:
    """Run what was not run yet, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="problems/, generator/ and outside/, a file of each name")
    parser.add_argument("--pool", default="cpu")
    parser.add_argument("--turns", type=int, default=2, help="evaluations of each kernel")
    parser.add_argument("--home", type=Path, default=WORKSPACE / "authors")
    parser.add_argument("--kept", type=Path, help="the file that rows are kept in; by default one for each pool")
    parser.add_argument("--sessions", type=Path, help="the home of the sessions that the kernels come from")
    parser.add_argument("--fresh", action="store_true", help="forget the rows that were kept")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    kept = options.kept or RESULTS / ("authors.json" if options.pool == "cpu" else f"authors_{options.pool}.json")
    content: Row = {"benchmark": "authors", "date": now(), "versions": versions(), "machine": machine(), "rows": {}}
    if kept.is_file() and not options.fresh:
        content = json.loads(kept.read_text(encoding="utf-8"))
    if options.folder is None and options.sessions is None:
        parser.error("name a folder of kernels, or the log of --sessions")
    options.home.mkdir(parents=True, exist_ok=True)
    try:
        if options.folder is None:
            content["rows"] = in_sessions(options.sessions)
            summarise(content)
        for problem in sorted((options.folder / "problems").glob("*.py")) if options.folder else ():
            if problem.stem not in content["rows"]:
                content["rows"][problem.stem] = measured(problem, options)
                summarise(content)
                save(kept, content)
        if options.sessions:
            for name, row in content["rows"].items():
                row |= handed_in(options.sessions, name)
            save(kept, content)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(content))
        return 0
    rows = [
        (name, *(f"{row[f'{author}_speedup']:.2f}x" for author in AUTHORS), f"{together(row):.2f}")
        for name, row in content["rows"].items()
    ]
    print(table(HEADER, rows))
    print(f"\ngeometric mean of both over the generator: {content['together_over_generator']:.2f} (goal: 1.15)")
    print(f"the outside author's is {LARGE} times as fast on {content['outside_wins_largely']} problems (goal: 5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
