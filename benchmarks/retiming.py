"""Does a new run agree? Kernels that won are timed again, each time by processes and baselines of a new run.

A kernel is timed once, which gives its interval, and then again in runs of their own: other processes, other inputs,
other addresses. A run agrees if its median lies in the interval. The goal is 95 of 100. The same is done for a copy of
eager, which has a true ratio of 1: how far from 1 its medians lie shows what differs from run to run, and no run may
call it a win.

What the table of spreads in the harness says is measured here: how much the processes of one run differ, and how much
runs differ beyond that.
"""

import argparse
import asyncio
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from _shared import (
    PROBLEMS,
    RESULTS,
    WORKSPACE,
    BenchmarkError,
    fresh_folder,
    machine,
    now,
    optimize,
    save,
    table,
    versions,
)

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pool_files import find_pool
from kernelswarm.hardware.problem_files import load_problem
from kernelswarm.schemas import HardwareFacts, Pool, Problem, Timing

HEADER = ("kernel", "runs", "first", "interval", "agree", "processes", "runs differ", "wins")
EAGER = "copy of eager"


def winner(path: Path, pool: str, budget: int, seed: int) -> str:
    """Source of the best kernel of one search, a win or not, which is kept; empty if none was right."""
    kept = WORKSPACE / "retiming" / "winners" / pool / f"{path.stem}.py"
    if not kept.exists():
        home = fresh_folder(WORKSPACE / "retiming" / path.stem)
        found = optimize(path, home=home, budget=budget, seed=seed, pool=pool)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(found.get("source", ""), encoding="utf-8")
    return kept.read_text(encoding="utf-8")


def copy_of_eager(problem: Problem) -> str:
    """The reference as a candidate."""
    if problem.format == "kernelbench":
        return f"{problem.source}\n\nclass ModelNew(Model):\n    pass\n"
    return f"{problem.source}\n\nkernel = reference\n"


async def one_run(pool: Pool, hardware: HardwareFacts, problem: Problem, source: str, language: str) -> Timing:
    """Time ``source`` against eager as a session's last measurement does, in processes of a new run.

    Raises:
        BenchmarkError: it is not judged correct.
    """
    async with Device(pool, hardware, WORKSPACE / "retiming" / "home", baselines=("eager",)) as device:
        facts = await device.admit(problem)
        compiled, _ = await device.compile(source, language)
        report = await device.profile(problem, facts, source, compiled, thorough=True)
    if report.timing is None:
        raise BenchmarkError(f"{problem.name}: {report.evidence.message if report.evidence else report.verdict}")
    return report.timing


def ratios(timing: Timing) -> list[float]:
    """The speedup over eager in each process of the candidate."""
    samples = {series.name: series.samples_ns for series in timing.series}
    found, begin = [], 0
    for rounds in timing.rounds:
        mine = slice(begin, begin + rounds)
        found.append(statistics.median(samples["eager"][mine]) / statistics.median(samples["candidate"][mine]))
        begin += rounds
    return found


def between_processes(timings: list[Timing]) -> float:
    """Standard deviation of the logarithm of the speedup from process to process within a run."""
    return math.sqrt(statistics.fmean(statistics.variance(map(math.log, ratios(timing))) for timing in timings))


def between_runs(logs: list[float], process: float, processes: int) -> float:
    """Standard deviation of the logarithm from run to run beyond what that of ``processes`` explains; not below 0."""
    return math.sqrt(max(0.0, statistics.variance(logs) - process**2 / processes))


def facts_of(name: str, timings: list[Timing]) -> dict[str, Any]:
    """What the runs of one kernel say; every run is compared with the interval of every other."""
    found = [timing.speedup["eager"] for timing in timings]
    pairs = [(one, other) for one in found for other in found if one is not other]
    logs = [math.log(interval.median) for interval in found]
    process = between_processes(timings)
    return {
        "kernel": name,
        "runs": len(found),
        "first": [found[0].low, found[0].median, found[0].high],
        "medians": [interval.median for interval in found],
        "intervals": [[interval.low, interval.high] for interval in found],
        "ratios": [ratios(timing) for timing in timings],
        "candidate_ms": [timing.median_ms["candidate"] for timing in timings],
        "agree": sum(one.low <= other.median <= one.high for one, other in pairs) / len(pairs) if pairs else None,
        "agree_with_first": sum(found[0].low <= one.median <= found[0].high for one in found[1:]),
        "process": process,
        "run": between_runs(logs, process, len(timings[0].rounds)) if len(logs) > 1 else None,
        "allowed": timings[0].spread,
        "wins": sum(interval.is_win for interval in found),
    }


def row(facts: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    low, median, high = facts["first"]
    share = "-" if facts["agree"] is None else f"{100 * facts['agree']:.0f} of 100"
    process, run = ("-" if facts[name] is None else f"{100 * facts[name]:.1f} %" for name in ("process", "run"))
    wins, first = f"{facts['wins']} of {facts['runs']}", f"{median:.2f}x"
    return (facts["kernel"], str(facts["runs"]), first, f"{low:.2f} to {high:.2f}", share, process, run, wins)


def kernels(paths: list[Path], pool: Pool, budget: int, seed: int) -> list[tuple[str, Problem, str, str]]:
    """Name, problem, source and language of what is to be timed again."""
    found = []
    for path in paths:
        problem, language = load_problem(path), pool.languages[0]
        found.append((f"{path.stem}, {EAGER}", problem, copy_of_eager(problem), language))
        source = winner(path, pool.name, budget, seed) if budget else ""
        if source:
            found.append((path.stem, problem, source, language))
    return found


async def time_again(options: argparse.Namespace, paths: list[Path], start: dict[str, Any]) -> list[dict[str, Any]]:
    """All runs, the kernels in turn, so that what the machine does meanwhile meets each of them."""
    pool = find_pool(options.pool, WORKSPACE / "retiming" / "home")
    hardware = detect(pool, WORKSPACE / "retiming" / "home")
    chosen = kernels(paths, pool, options.budget, options.seed)
    timings: dict[str, list[Timing]] = {name: [] for name, *_ in chosen}
    for turn in range(options.runs):
        for name, problem, source, language in chosen:
            timings[name].append(await one_run(pool, hardware, problem, source, language))
        print(f"run {turn + 1} of {options.runs} is done", file=sys.stderr)
        if turn:
            keep(start, [facts_of(name, found) for name, found in timings.items()])
    return [facts_of(name, found) for name, found in timings.items()]


def keep(start: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    """Write what is known so far: a long benchmark may be interrupted."""
    pairs = sum(one["runs"] * (one["runs"] - 1) for one in found)
    agree = sum(one["agree"] * one["runs"] * (one["runs"] - 1) for one in found if one["agree"] is not None)
    content = {**start, "kernels": found, "agree_of_100": 100 * agree / pairs if pairs else None}
    save(RESULTS / ("retiming.json" if start["pool"] == "cpu" else f"retiming_{start['pool']}.json"), content)
    return content


def main() -> int:
    """Search, time again, print how many runs agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", default="rmsnorm,softmax,swiglu", help="names of shipped problems, or files")
    parser.add_argument("--pool", default="cpu", help="where to time; an accelerator's too")
    parser.add_argument("--runs", type=int, default=20, help="2 at least")
    parser.add_argument("--budget", type=int, default=10, help="of each search; 0: copies of eager only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    paths = [path if (path := Path(name)).suffix else PROBLEMS / f"{name}.py" for name in options.problems.split(",")]
    start = {"benchmark": "retiming", "date": now(), "versions": versions(), "machine": machine(), "pool": options.pool}
    try:
        found = asyncio.run(time_again(options, paths, start))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    content = keep(start, found)
    if options.json:
        print(json.dumps(content))
    else:
        print(table(HEADER, [row(facts) for facts in found]))
        print(f"\nruns whose median lies in another run's interval: {content['agree_of_100']:.1f} of 100 (goal: 95)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
