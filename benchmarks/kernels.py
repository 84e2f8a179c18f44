"""Kernels found: one search on every shipped problem, against the best of three baselines.

Every line's times and ratios come from one interleaved run of baselines and best kernel. Finished problems are kept
and not searched again by a later call with the same budget, seed, problem and commit, so an interrupted run goes on.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from _shared import (
    PROBLEMS,
    RESULTS,
    WORKSPACE,
    BenchmarkError,
    commit,
    counted,
    fresh_folder,
    geometric_mean,
    machine,
    now,
    optimize,
    save,
    sql,
    table,
    versions,
)

HEADER = ("problem", "eager", "compile", "max-auto", "kernel", "x eager", "x best", "interval", "of", "floor", "result")


def search(problem: Path, budget: int, seed: int, pool: str, home: Path | None) -> dict[str, Any]:
    """One problem in a home of its own, where no problem profits from what another taught, or in ``home``."""
    home = home or fresh_folder(WORKSPACE / "kernels" / problem.stem)
    result = optimize(problem, home=home, budget=budget, seed=seed, pool=pool)
    samples = raw_samples(home, result["session"], result.get("best", ""))
    source = result.pop("source", "")
    sha256 = hashlib.sha256(source.encode()).hexdigest() if source else ""
    return {**result, "path": "", "source_sha256": sha256, "samples": samples}


def raw_samples(home: Path, session: str, best: str) -> list[dict[str, Any]]:
    """Series of the run that the result speaks of: the last in which the best kernel was timed."""
    rows = sql(
        home,
        "SELECT body FROM events WHERE tag = 'candidate.profiled.v1' "
        f"AND session = '{session}' AND node = '{best}' ORDER BY seq DESC LIMIT 1",
    )
    report = json.loads(rows[0]["body"])["report"] if rows else {}
    return list((report.get("timing") or {}).get("series", []))


def identity(problem: Path, budget: int, seed: int, pool: str = "cpu") -> dict[str, Any]:
    """What must be the same for a kept result to stand."""
    sha256 = hashlib.sha256(problem.read_bytes()).hexdigest()
    return {"problem_sha256": sha256, "pool": pool, "budget": budget, "seed": seed, "commit": commit()}


def entry(problem: Path, budget: int, seed: int, pool: str, home: Path | None) -> dict[str, Any]:
    """Search, or say why there is no result."""
    started = {"date": now(), **identity(problem, budget, seed, pool)}
    try:
        return {**started, "result": search(problem, budget, seed, pool, home), "error": ""}
    except BenchmarkError as error:
        return {**started, "result": None, "error": str(error)}


def ratio_over(result: dict[str, Any], baseline: str) -> float | None:
    """Measured speedup of the best kernel over a baseline, below 1 where it is slower; None where nothing was timed."""
    times = result.get("times_ms", {})
    return times[baseline] / times["candidate"] if times.get("candidate") and times.get(baseline) else None


def row(name: str, record: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    result = record["result"]
    if result is None:
        return (name, *["-"] * (len(HEADER) - 2), f"error: {record['error']}")
    times, speedup = result.get("times_ms", {}), counted(result)
    eager = ratio_over(result, "eager")
    fraction = result.get("roofline_fraction")
    return (
        name,
        *(f"{times[key]:.2f}" if key in times else "-" for key in ("eager", "compile", "max_autotune", "candidate")),
        f"{eager:.2f}" if eager else "-",
        f"{speedup['median']:.2f}" if speedup else "-",
        f"{speedup['low']:.2f}..{speedup['high']:.2f}" if speedup else "-",
        (speedup or {}).get("against") or result.get("against") or "-",
        f"{100 * fraction:.0f}%" if fraction is not None else "-",
        "win" if result["win"] else f"no win ({result['reason']})",
    )


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means over all problems. Without a timed kernel the user keeps what he has: that counts as 1."""
    over_eager = [ratio_over(result, "eager") or 1.0 for result in results]
    over_best = [speedup["median"] if (speedup := counted(result)) else 1.0 for result in results]
    touching = [r["problem"] for r in results if r["win"] and not ((speedup := counted(r)) and speedup["low"] > 1)]
    return {
        "problems": len(results),
        "wins": sum(bool(result["win"]) for result in results),
        "geometric_mean_over_eager": geometric_mean(over_eager),
        "geometric_mean_over_best": geometric_mean(over_best),
        "wins_whose_interval_touches_1": touching,
    }


def print_summary(facts: dict[str, Any], failed: int) -> None:
    """The figures as sentences."""
    if facts["problems"]:
        print(f"\ngeometric mean over eager:             {facts['geometric_mean_over_eager']:.2f}x")
        print(f"geometric mean over the best baseline: {facts['geometric_mean_over_best']:.2f}x")
    print(f"wins: {facts['wins']} of {facts['problems']}", end="")
    print(f"; {failed} could not be searched" if failed else "")
    touching = facts["wins_whose_interval_touches_1"]
    print(f"reported as a win though the interval touches 1: {', '.join(touching) or 'none'}")


def chosen(names: str) -> list[Path]:
    """Problem files by the name of a shipped one or by their path; all shipped ones where none is named.

    Raises:
        BenchmarkError: no such problem ships, no such file is there.
    """
    shipped = {path.stem: path for path in sorted(PROBLEMS.glob("[a-z]*.py"))}
    selection = [name.strip() for name in names.split(",") if name.strip()] or list(shipped)
    unknown = [name for name in selection if name not in shipped and not Path(name).is_file()]
    if unknown:
        raise BenchmarkError(f"no problem named {', '.join(unknown)}: give a file, or choose from {', '.join(shipped)}")
    return [shipped.get(name) or Path(name) for name in selection]


def load(path: Path) -> dict[str, Any]:
    """Entries of an earlier run by problem."""
    if not path.exists():
        return {}
    entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["entries"]
    return entries


def run(problems: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    """Search what is not there yet; the whole file's content, saved after every problem."""
    path, settings = options.results, (options.budget, options.seed, options.pool)
    entries = load(path)
    content = {"benchmark": "kernels", "date": now(), "versions": versions(), "machine": machine(), "entries": entries}
    for number, problem in enumerate(problems, 1):
        record = entries.get(problem.stem)
        expected = identity(problem, *settings)
        if not options.fresh and record and record["result"] and {key: record.get(key) for key in expected} == expected:
            print(f"[{number}/{len(problems)}] {problem.stem}: kept from {record['date']}", file=sys.stderr)
            continue
        print(
            f"[{number}/{len(problems)}] {problem.stem}: searching, budget {options.budget}",
            file=sys.stderr,
            flush=True,
        )
        entries[problem.stem] = entry(problem, *settings, options.home)
        save(path, content)
    return content


def main() -> int:
    """Run, print, and return 0, or 1 if a problem could not be searched."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", default="", help="names or files, separated by commas; all by default")
    parser.add_argument("--pool", default="cpu")
    parser.add_argument("--home", type=Path, help="one home for all; by default each problem has its own, empty one")
    parser.add_argument("--budget", type=int, default=40, help="candidates for each problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS / "kernels.json", help="where results are kept")
    parser.add_argument("--fresh", action="store_true", help="search again what is kept")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    try:
        problems = chosen(options.problems)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    content = run(problems, options)
    entries = {problem.stem: content["entries"][problem.stem] for problem in problems}
    facts = summary([record["result"] for record in entries.values() if record["result"]])
    failed = sum(record["result"] is None for record in entries.values())
    if options.json:
        print(json.dumps({**content, "entries": entries, "summary": facts}))
    else:
        print(table(HEADER, [row(name, record) for name, record in entries.items()]))
        print("times in ms; interval 95 %, of the ratio to the best baseline; floor: share of the machine's limit")
        print_summary(facts, failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
