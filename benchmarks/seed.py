"""What seeding brings and costs: the same searches with and without it, side by side.

Without: a search in a home of its own. With: the same search (budget, random seed) in a copy of a home in which another
search has ended, started with ``--seed-from auto``. That other search is the unseeded one of the next random seed, on
the same problem (``--history same``) or the most alike shipped one (``--history like``); with ``--history all`` the log
holds those of all other random seeds, as one that is in use does. No kernel comes from the search it is compared with.
The arm ``skills`` has that home too but no seeds: what earlier lessons alone bring.

Reported: candidates until 95 % of the best of the unseeded search is reached, the same of the search's own best, and
the best itself. No number rests on how fast the machine was in the minutes of a search: every kernel that was a
search's best so far (its milestones; measured seeds count as candidates) and the one that it named best in the end are
evaluated again, those of both searches in turns, and what counts is the median speedup of the turns over the best
baseline. A search that never gets there counts one candidate more than it had. Every search is kept as it ends and not
done again by a later call at the same commit, so an interrupted run goes on.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from _shared import (
    PROBLEMS,
    RESULTS,
    WORKSPACE,
    BenchmarkError,
    counted,
    fresh_folder,
    geometric_mean,
    kernelswarm,
    machine,
    now,
    optimize,
    save,
    sql,
    table,
    versions,
)
from kernels import chosen, identity, load

DEFAULT = "mbdt,mapid,batch_event_truncate,masked_softmax,gelu_bias,matmul_swish_groupnorm_kb"
"""The shipped problems with the most room: at least 1.67x in results/kernels.json. Where there is little to win, the
first draft is within 5 % of the best, and no start can be sooner."""

LIKE = {
    "rmsnorm": "layernorm_residual",
    "layernorm_residual": "rmsnorm",
    "softmax": "masked_softmax",
    "masked_softmax": "softmax",
    "matmul_swish_groupnorm_kb": "layernorm_residual",
}
"""The most alike shipped problem, as docs/seeding.md compares them; the others have none."""

HISTORIES = {
    "same": "the same problem, one search",
    "all": "the same problem, a search of every other random seed",
    "like": "the most alike problem, one search",
}
ARMS = ("without", "skills", "with")
MILESTONES = "milestones"
SHARE = 0.95
GOAL = 1 / 3

FIRST_MEASUREMENTS = """
SELECT d.node, d.fitness, c.source FROM diagnoses d JOIN candidates c USING (session, node)
WHERE session = '{session}' AND NOT d.confirmation ORDER BY d.seq
"""
"""Every first measurement in the order in which the search learned of it."""


def home_of(problem: str, seed: int, arm: str, history: str) -> Path:
    """Where a search lies. An unseeded one has no history."""
    return WORKSPACE / "seed" / problem / str(seed) / (arm if arm == "without" else f"{arm}-{history}")


def search(problem: Path, seed: int, arm: str, options: argparse.Namespace) -> dict[str, Any]:
    """One search; what came of it, and every first measurement in order.

    Raises:
        BenchmarkError: it failed, or the search that it starts from is not there.
    """
    history = options.history
    home = fresh_folder(home_of(problem.stem, seed, arm, history))
    extra: list[str] = []
    if arm != "without":
        source = LIKE[problem.stem] if history == "like" else problem.stem
        others = [(seed + step) % options.seeds for step in range(1, options.seeds if history == "all" else 2)]
        put_history(home, [home_of(source, other_seed, "without", history) for other_seed in others])
    if arm == "with":
        extra = ["--seed-from", "auto"]
    search_result = optimize(problem, home=home, budget=options.budget, seed=seed, extra=extra)
    search_result.pop("source", "")
    measured = sql(home, FIRST_MEASUREMENTS.format(session=search_result["session"]))
    milestones = write_milestones(measured, search_result["best"], fresh_folder(home / MILESTONES))
    firsts = [[row["node"], row["fitness"]] for row in measured]
    result = {**search_result, "path": "", "measured": firsts, "milestones": milestones}
    if arm != "without":
        rival = home_of(problem.stem, seed, "without", history)
        result["again"] = evaluate_again(problem, {"without": rival, arm: home}, options.turns)
    return result


def put_history(home: Path, earlier: list[Path]) -> None:
    """Make ``home`` one in which the searches of the homes ``earlier`` have ended.

    Raises:
        BenchmarkError: one of them has no finished search.
    """
    for before in earlier:
        if not (before / "log.duckdb").exists():
            raise BenchmarkError(f"no finished search in {before}: run the arm `without` first")
    shutil.copytree(earlier[0], home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("nats", "out"))
    for before in earlier[1:]:
        kernelswarm("log", "import", str(before / "log.duckdb"), home=home)


def write_milestones(measured: list[dict[str, Any]], best: str, folder: Path) -> list[int]:
    """Write each kernel that was the best so far, and the ``best`` of the end, as COUNT.py; the counts."""
    counts, ahead = [], 0.0
    for count, row in enumerate(measured, 1):
        if row["fitness"] > ahead or row["node"] == best:
            (folder / f"{count:03}.py").write_text(row["source"], encoding="utf-8")
            counts.append(count)
        ahead = max(ahead, row["fitness"])
    return counts


def evaluate_again(problem: Path, homes: dict[str, Path], turns: int) -> dict[str, list[list[float]]]:
    """The milestones of two searches in turns: of each search, by milestone, the speedups by turn.

    Raises:
        BenchmarkError: a kernel that was found correct is not so any more.
    """
    files = [(arm, file) for arm, home in homes.items() for file in sorted((home / MILESTONES).glob("*.py"))]
    again: dict[str, list[list[float]]] = {arm: [] for arm in homes}
    if not files:
        return again
    paths = [str(file) for _, file in files]
    ran = kernelswarm("evaluate", str(problem), *(paths * turns), "--json", home=[*homes.values()][-1])
    evaluations = [json.loads(line) for line in ran.stdout.splitlines()]
    speedups = [counted(evaluation) or {} for evaluation in evaluations]
    if len(evaluations) != len(files) * turns or not all(speedups):
        raise BenchmarkError(f"the kernels of {problem.stem} could not be evaluated again: {ran.stdout[-500:]}")
    for at, (arm, _) in enumerate(files):
        again[arm].append([float(speedup["median"]) for speedup in speedups[at :: len(files)]])
    return again


def speeds_of(search: dict[str, Any], again: list[list[float]]) -> dict[int, float]:
    """Speedup of each milestone when evaluated again, by its count of candidates."""
    return dict(zip(search["milestones"], map(median, again), strict=True))


def best_of(search: dict[str, Any], speeds: dict[int, float]) -> float:
    """Speedup of the kernel that the search named best; without one the user keeps what he has, at 1."""
    nodes = [node for node, _ in search["measured"]]
    return speeds[nodes.index(search["best"]) + 1] if search["best"] else 1.0


def candidates_to(search: dict[str, Any], speeds: dict[int, float], goal: float) -> int:
    """How many candidates a search had when one reached ``goal``; one more than it had if none did."""
    return next((count for count, speed in speeds.items() if speed >= goal), len(search["measured"]) + 1)


def compare(without: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One pair of searches in figures."""
    again_without, again_other = other["again"].values()
    before, after = speeds_of(without, again_without), speeds_of(other, again_other)
    best_without, best_with = best_of(without, before), best_of(other, after)
    needed = candidates_to(without, before, SHARE * best_without)
    seeded = candidates_to(other, after, SHARE * best_without)
    own = candidates_to(other, after, SHARE * best_with)
    return {
        "candidates_without": needed,
        "candidates_with": seeded,
        "reached": seeded <= len(other["measured"]),
        "candidates_ratio": seeded / needed,
        "own_best_candidates_with": own,
        "own_best_candidates_ratio": own / needed,
        "best_without": best_without,
        "best_with": best_with,
        "best_ratio": best_with / best_without,
    }


def summary(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """All pairs of an arm in figures."""
    return {
        "pairs": len(pairs),
        "candidates_ratio": geometric_mean(pair["candidates_ratio"] for pair in pairs),
        "own_best_candidates_ratio": geometric_mean(pair["own_best_candidates_ratio"] for pair in pairs),
        "best_ratio": geometric_mean(pair["best_ratio"] for pair in pairs),
        "never_reached": sum(not pair["reached"] for pair in pairs),
        "at_most_a_third": sum(pair["candidates_ratio"] <= GOAL for pair in pairs),
        "best_at_least_as_good": sum(pair["best_ratio"] >= 1 for pair in pairs),
    }


def wanted(problems: list[Path], seeds: int, arms: list[str], history: str) -> Iterator[tuple[Path, int, str]]:
    """Searches in an order in which each finds its history: a problem's unseeded ones and those of its source first."""
    done: set[tuple[Path, int]] = set()
    ahead = seeds - 1 if history == "all" else 1
    for problem in problems:
        sources = [problem, *([PROBLEMS / f"{LIKE[problem.stem]}.py"] if history == "like" else [])]
        # A seeded search comes as soon as its history is there: the arms share the machine's good and bad minutes.
        for seed in range(seeds + ahead):
            for source in sources:
                if seed < seeds and (source, seed) not in done:
                    yield source, seed, "without"
                    done.add((source, seed))
            yield from ((problem, seed - ahead, arm) for arm in arms if seed >= ahead)


def run(options: argparse.Namespace, problems: list[Path], arms: list[str]) -> dict[str, Any]:
    """Search what is not there yet; the whole file's content, saved after every search."""
    entries = load(options.results)
    content = {"benchmark": "seed", "date": now(), "versions": versions(), "machine": machine(), "entries": entries}
    todo = list(wanted(problems, options.seeds, arms, options.history))
    for number, (problem, seed, arm) in enumerate(todo, 1):
        key = "/".join((problem.stem, str(seed), arm if arm == "without" else f"{arm}-{options.history}"))
        record, same = entries.get(key), {**identity(problem, options.budget, seed), "seeds": options.seeds}
        there = (home_of(problem.stem, seed, arm, options.history) / "log.duckdb").exists() or arm != "without"
        if not options.fresh and record and there and {name: record.get(name) for name in same} == same:
            print(f"[{number}/{len(todo)}] {key}: kept from {record['date']}", file=sys.stderr)
            continue
        print(f"[{number}/{len(todo)}] {key}: searching, budget {options.budget}", file=sys.stderr, flush=True)
        result = search(problem, seed, arm, options)
        entries[key] = {"date": now(), **same, "versions": versions(), "machine": machine(), "result": result}
        save(options.results, content)
    return content


def pairs_of(content: dict[str, Any], problems: list[Path], seeds: int, arm: str, history: str) -> dict[str, Any]:
    """Every problem's pairs of searches, by problem and seed."""
    entries = content["entries"]
    return {
        f"{problem.stem}/{seed}": compare(
            entries[f"{problem.stem}/{seed}/without"]["result"],
            entries[f"{problem.stem}/{seed}/{arm}-{history}"]["result"],
        )
        for problem in problems
        for seed in range(seeds)
    }


def report(arm: str, history: str, pairs: dict[str, Any], facts: dict[str, Any]) -> str:
    """The figures for people."""
    header = ("problem/seed", "to 95 %", f"{arm}", "ratio", "own best", "best", f"{arm}", "ratio")
    rows = [
        (
            name,
            str(pair["candidates_without"]),
            f"{pair['candidates_with']}" if pair["reached"] else f">{pair['candidates_with'] - 1}",
            f"{pair['candidates_ratio']:.2f}",
            str(pair["own_best_candidates_with"]),
            f"{pair['best_without']:.2f}x",
            f"{pair['best_with']:.2f}x",
            f"{pair['best_ratio']:.3f}",
        )
        for name, pair in pairs.items()
    ]
    count, of = facts["at_most_a_third"], facts["pairs"]
    title = f"{arm} a history of {HISTORIES[history]}, against without"
    return "\n".join(
        (
            title,
            table(header, rows),
            f"candidates to 95 % of the unseeded best: {facts['candidates_ratio']:.2f} of the unseeded number "
            f"(geometric mean; goal: at most {GOAL:.2f})",
            f"    at most a third in {count} of {of}, never reached in {facts['never_reached']}",
            f"candidates to 95 % of the own best: {facts['own_best_candidates_ratio']:.2f} of the unseeded number",
            f"best: {facts['best_ratio']:.3f} of the unseeded best (geometric mean; goal: at least 1)",
            f"    at least as good in {facts['best_at_least_as_good']} of {of}",
        )
    )


def main() -> int:
    """Search, print both sides of the bargain, and return 0, or 1 if a search failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", default=DEFAULT, help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="random seeds for each problem, at least 2")
    parser.add_argument("--budget", type=int, default=40, help="candidates for each search")
    parser.add_argument("--turns", type=int, default=3, help="times that every milestone is evaluated again")
    parser.add_argument("--history", choices=tuple(HISTORIES), default="same", help="whose kernels are the seeds")
    parser.add_argument("--arms", default="with", help="of with and skills, separated by commas")
    parser.add_argument("--results", type=Path, default=RESULTS / "seed.json", help="file for the results")
    parser.add_argument("--fresh", action="store_true", help="search again what is kept")
    parser.add_argument("--json", action="store_true", help="print one object instead of the tables")
    options = parser.parse_args()
    arms = [arm for arm in ARMS[1:] if arm in options.arms.split(",")]
    try:
        problems = chosen(options.problems)
        if options.history == "like":
            problems = [problem for problem in problems if problem.stem in LIKE]
        if options.seeds < 2 or not arms or not problems:
            raise BenchmarkError("give at least 2 seeds, an arm of with and skills, and a problem that has a history")
        content = run(options, problems, arms)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    content["pairs"], content["summary"] = {}, {}
    for arm in arms:
        pairs = pairs_of(content, problems, options.seeds, arm, options.history)
        content["pairs"][f"{arm}-{options.history}"] = pairs
        content["summary"][f"{arm}-{options.history}"] = facts = summary(list(pairs.values()))
        if not options.json:
            print(report(arm, options.history, pairs, facts), end="\n\n")
    save(options.results, content)
    if options.json:
        print(json.dumps(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
