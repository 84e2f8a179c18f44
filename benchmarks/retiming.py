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
from dataclasses import dataclass, field
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
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import HardwareFacts, Pool, Problem, ProblemFacts, Timing

HEADER = ("kernel", "runs", "first", "interval", "agree", "processes", "runs differ", "wins", "refused")
EAGER = "copy of eager"


def winner(path: Path, pool: str, budget: int, seed: int) -> str:
    """Source of the best kernel of one search, a win or not, which is kept; empty if none was right."""
    source_file = WORKSPACE / "retiming" / "winners" / pool / f"{path.stem}.py"
    if not source_file.exists():
        home = fresh_folder(WORKSPACE / "retiming" / path.stem)
        result = optimize(path, home=home, budget=budget, seed=seed, pool=pool)
        source_file.parent.mkdir(parents=True, exist_ok=True)
        source_file.write_text(result.get("source", ""), encoding="utf-8")
    return source_file.read_text(encoding="utf-8")


def copy_of_eager(problem: Problem) -> str:
    """The reference as a candidate."""
    if problem.format == "kernelbench":
        return f"{problem.source}\n\nclass ModelNew(Model):\n    pass\n"
    return f"{problem.source}\n\nkernel = reference\n"


async def one_run(
    pool: Pool, hardware: HardwareFacts, problem: Problem, facts: ProblemFacts, source: str, language: str
) -> Timing:
    """Time ``source`` against eager as a session's last measurement does, in processes of a new run.

    Raises:
        BenchmarkError: it is not judged correct.
    """
    async with Device(pool, hardware, WORKSPACE / "retiming" / "home", baselines=("eager",)) as device:
        compiled, _ = await device.compile(source, language)
        report = await device.profile(problem, facts, source, compiled, thorough=True)
    if report.timing is None:
        raise BenchmarkError(f"{problem.name}: {report.evidence.message if report.evidence else report.verdict}")
    return report.timing


def ratios(timing: Timing) -> list[float]:
    """The speedup over eager in each process of the candidate."""
    samples = {series.name: series.samples_ns for series in timing.series}
    speedups, begin = [], 0
    for rounds in timing.rounds:
        mine = slice(begin, begin + rounds)
        speedups.append(statistics.median(samples["eager"][mine]) / statistics.median(samples["candidate"][mine]))
        begin += rounds
    return speedups


def between_processes(timings: list[Timing]) -> float:
    """Standard deviation of the logarithm of the speedup from process to process within a run."""
    return math.sqrt(statistics.fmean(statistics.variance(map(math.log, ratios(timing))) for timing in timings))


def between_runs(logs: list[float], process: float, processes: int) -> float:
    """Standard deviation of the logarithm from run to run beyond what that of ``processes`` explains; not below 0."""
    return math.sqrt(max(0.0, statistics.variance(logs) - process**2 / processes))


def facts_of(name: str, timings: list[Timing]) -> dict[str, Any]:
    """What the runs of one kernel say; every run is compared with the interval of every other."""
    intervals = [timing.speedup["eager"] for timing in timings]
    pairs = [(first, second) for first in intervals for second in intervals if first is not second]
    logs = [math.log(interval.median) for interval in intervals]
    process = between_processes(timings)
    return {
        "kernel": name,
        "runs": len(intervals),
        "first": [intervals[0].low, intervals[0].median, intervals[0].high],
        "medians": [interval.median for interval in intervals],
        "intervals": [[interval.low, interval.high] for interval in intervals],
        "ratios": [ratios(timing) for timing in timings],
        "candidate_ms": [timing.median_ms["candidate"] for timing in timings],
        "agree": sum(first.low <= second.median <= first.high for first, second in pairs) / len(pairs)
        if pairs
        else None,
        "agree_with_first": sum(intervals[0].low <= interval.median <= intervals[0].high for interval in intervals[1:]),
        "process": process,
        "run": between_runs(logs, process, len(timings[0].rounds)) if len(logs) > 1 else None,
        "allowed": timings[0].spread,
        "wins": sum(interval.is_win for interval in intervals),
    }


def row(facts: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    low, median, high = facts["first"]
    share = "-" if facts["agree"] is None else f"{100 * facts['agree']:.0f} of 100"
    process, run = ("-" if facts[name] is None else f"{100 * facts[name]:.1f} %" for name in ("process", "run"))
    wins, first = f"{facts['wins']} of {facts['runs']}", f"{median:.2f}x"
    refused = str(len(facts["refused"]))
    return (facts["kernel"], str(facts["runs"]), first, f"{low:.2f} to {high:.2f}", share, process, run, wins, refused)


@dataclass(frozen=True)
class Kernel:
    """What is timed again, and what came of it."""

    name: str
    problem: Problem
    source: str
    timings: list[Timing] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Why it was not judged correct, one sentence for each run in which it was not."""

    def facts(self) -> dict[str, Any]:
        """What its runs say."""
        empty = {"kernel": self.name, "runs": 0, "agree": None}
        return {**(facts_of(self.name, self.timings) if self.timings else empty), "refused": self.refused}


def kernels(paths: list[Path], options: argparse.Namespace) -> list[Kernel]:
    """Copies of eager, and winners."""
    selection = []
    for path in paths:
        problem = load_problem(path)
        if options.copies:
            selection.append(Kernel(f"{path.stem}, {EAGER}", problem, copy_of_eager(problem)))
        source = winner(path, options.pool, options.budget, options.seed) if options.budget else ""
        if source:
            selection.append(Kernel(path.stem, problem, source))
    return selection


async def time_again(options: argparse.Namespace, paths: list[Path], start: dict[str, Any]) -> dict[str, Any]:
    """All runs, the kernels in turn, so that what the machine does meanwhile meets each of them."""
    home = WORKSPACE / "retiming" / "home"
    pool = find_pool(options.pool, home)
    hardware = detect(pool, home)
    chosen = kernels(paths, options)
    places = asyncio.Semaphore(options.at_once)
    async with Device(pool, hardware, home, baselines=("eager",)) as device:
        facts = {kernel.problem.name: await device.validate_problem(kernel.problem) for kernel in chosen}

    async def time(kernel: Kernel) -> None:
        # Whoever is timed has the device alone, as in a search; what is done at once is the setting up.
        async with places:
            try:
                problem_facts = facts[kernel.problem.name]
                timing = await one_run(pool, hardware, kernel.problem, problem_facts, kernel.source, pool.languages[0])
            except BenchmarkError as error:
                print(error, file=sys.stderr)
                kernel.refused.append(str(error))
            else:
                kernel.timings.append(timing)

    content = start
    for turn in range(options.runs):
        await asyncio.gather(*map(time, chosen))
        print(f"run {turn + 1} of {options.runs} is done", file=sys.stderr)
        content = keep(start, chosen)
    return content


def keep(start: dict[str, Any], chosen: list[Kernel]) -> dict[str, Any]:
    """Write what is known so far: a long benchmark may be interrupted.

    A run in which a kernel is not judged correct agrees with no other.
    """
    facts = [kernel.facts() for kernel in chosen]
    pairs = sum((fact["runs"] + len(fact["refused"])) * (fact["runs"] + len(fact["refused"]) - 1) for fact in facts)
    agree = sum(fact["agree"] * fact["runs"] * (fact["runs"] - 1) for fact in facts if fact["agree"] is not None)
    content = {**start, "kernels": facts, "agree_of_100": 100 * agree / pairs if pairs else None}
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
    parser.add_argument("--copies", action=argparse.BooleanOptionalAction, default=True, help="time eager's too")
    parser.add_argument("--at-once", type=int, default=1, help="kernels under way at a time; one of them is timed")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    if options.runs < 2 or options.at_once < 1 or not (options.copies or options.budget):
        parser.error("give --runs of 2 or more, --at-once of 1 or more, and --budget with --no-copies")
    paths = [path if (path := Path(name)).suffix else PROBLEMS / f"{name}.py" for name in options.problems.split(",")]
    start = {"benchmark": "retiming", "date": now(), "versions": versions(), "machine": machine(), "pool": options.pool}
    try:
        content = asyncio.run(time_again(options, paths, start))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # what was kept after each run stays
    if options.json:
        print(json.dumps(content))
    else:
        print(table(HEADER, [row(facts) for facts in content["kernels"] if facts["runs"]]))
        print(f"\nruns whose median lies in another run's interval: {content['agree_of_100']:.1f} of 100 (goal: 95)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
