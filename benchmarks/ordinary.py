"""Does what the judge measured hold in an ordinary process? Thirty problems, half of them under half a millisecond.

For each the generator's default candidate (a copy of eager where it writes none) is judged as a session's finalist is,
and timed in ordinary processes against the same baselines. The ratio of the two speedups should be 1. It is taken over
the baseline that was the fastest in ordinary processes, which of three equal ones is chosen by their noise, to the
disadvantage of the second number; a line of its own has the ratio of what each claims. What both call a win is timed
in ordinary processes once more: its interval should lie above 1 again (``--pairs``: so often).

Rows are kept after each problem in ``results/ordinary.json``: an interrupted run goes on where it was.

With ``--pool`` an accelerator's (``results/ordinary_POOL.json``). The judge times the device there and ordinary
processes the call: two numbers, whose ratio need not be 1. Every problem is timed twice, and a last line says how much
a ratio differs from process to process and from run to run: what ``rounds.DEVICE_SPREADS`` holds.

With ``--jobs N`` N problems are measured at a time, each on cores of its own: for machines with many cores.
"""

import argparse
import asyncio
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from _ordinary_problems import PROBLEMS
from _shared import RESULTS, WORKSPACE, geometric_mean, machine, now, on_own_cores, save, table, versions

from kernelswarm.codegen.generator import Generator, Proposal
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import (
    HardwareFacts,
    Intent,
    Interval,
    KernelswarmError,
    MemoryOperator,
    NodePlanned,
    Problem,
    ProblemFacts,
    Timing,
)

HEADER = ("problem", "eager", "candidate", "against", "harness", "ordinary", "interval", "ordinary/harness", "win")
DRAFT = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)


def usually_kept(pool: str, of_files: bool) -> Path:
    """Where the rows of a pool are kept, of the thirty problems or of files that were named."""
    parts = ["ordinary", *(["files"] if of_files else []), *([pool] if pool != "cpu" else [])]
    return RESULTS / f"{'_'.join(parts)}.json"


def candidate(problem: Problem, facts: ProblemFacts, hardware: HardwareFacts, language: str) -> tuple[str, str]:
    """The default candidate's source, and who wrote it."""
    proposal = Generator().propose(facts, hardware, DRAFT, None, [], language=language)
    if isinstance(proposal, Proposal):
        return proposal.source, "generator"
    return f"{problem.source}\n\nclass ModelNew(Model):\n    pass\n", "copy of eager"


async def measured(device: Device, path: Path, hardware: HardwareFacts, language: str, pairs: int) -> dict[str, Any]:
    """One row: the same kernel by the judge and in ordinary processes; of a win, ``pairs`` of two runs each."""
    problem = load_problem(path)
    try:
        facts = await device.validate_problem(problem)
        source, author = candidate(problem, facts, hardware, language)
        compiled, _ = await device.compile(source, language)
        verified = await device.verify(problem, source, compiled)
        profile = await device.profile(problem, facts, source, compiled, thorough=True)
        if profile.timing is None:
            return _failed(path, profile.evidence.message if profile.evidence else profile.verdict)
        text = finish(problem, facts, source, verified)
        timing, missing = await device.ordinary(problem, facts, text)
        if timing is None:
            return _failed(path, missing)
        runs = [timing]
        if hardware.accelerators or (_is_win(profile.timing) and _is_win(timing)):
            while len(runs) < 2 * pairs and (repeated := (await device.ordinary(problem, facts, text))[0]) is not None:
                runs.append(repeated)
    except KernelswarmError as error:
        return _failed(path, str(error))
    finally:
        await device.forget(problem)
    return {
        **_compared(profile.timing, timing),
        "by_process": [by_process(run, timing.best) for run in runs],
        "again": [
            _interval(later.speedup[declared.best])
            for declared, later in zip(runs[::2], runs[1::2], strict=False)
            if _is_win(declared)
        ],
        "problem": path.stem,
        "author": author,
        "verdict": verified.verdict,
    }


def _failed(path: Path, reason: str) -> dict[str, Any]:
    return {"problem": path.stem, "failed": reason}


def _compared(harness: Timing, ordinary: Timing) -> dict[str, Any]:
    """Both against the baseline that is the fastest in ordinary processes."""
    best = ordinary.best if ordinary.best in harness.speedup else harness.best
    ratios = {name: ordinary.speedup[name].median / harness.speedup[name].median for name in harness.speedup}
    return {
        "against": best,
        "harness": _interval(harness.speedup[best]),
        "ordinary": _interval(ordinary.speedup[best]),
        "ratio": ratios[best],
        "ratios": ratios,
        "claims": ordinary.speedup[ordinary.best].median / harness.speedup[harness.best].median,
        "harness_ms": harness.median_ms,
        "ordinary_ms": ordinary.median_ms,
        "win": _is_win(harness) and _is_win(ordinary),
    }


def by_process(timing: Timing, baseline: str) -> list[float]:
    """The candidate's speedup over a baseline in each of its processes."""
    series = {entry.name: entry.samples_ns for entry in timing.series}
    ends = [sum(timing.rounds[: number + 1]) for number in range(len(timing.rounds))]
    parts = [slice(end - count, end) for end, count in zip(ends, timing.rounds, strict=True)]
    return [median(series[baseline][part]) / median(series["candidate"][part]) for part in parts]


def spreads(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Standard deviations of a ratio, as shares: between processes of a run, and between runs beyond that."""
    runs = [[[math.log(ratio) for ratio in run] for run in row.get("by_process", [])] for row in rows]
    within = [stdev(run) ** 2 for row in runs for run in row if len(run) > 1]
    between = [(stdev(map(fmean, row)) ** 2, fmean(len(run) for run in row)) for row in runs if len(row) > 1]
    if not within or not between:
        return {}
    process = fmean(within)
    run = fmean(variance - process / count for variance, count in between)
    return {"process": math.sqrt(process), "run": math.sqrt(max(0.0, run))}


def _is_win(timing: Timing) -> bool:
    return timing.speedup[timing.best].is_win


def _interval(interval: Interval) -> list[float]:
    return [interval.low, interval.median, interval.high]


async def run(options: argparse.Namespace, content: dict[str, Any]) -> dict[str, Any]:
    """All problems that are not in ``content`` yet."""
    folder = WORKSPACE / "ordinary" / "problems"
    folder.mkdir(parents=True, exist_ok=True)
    paths = options.files or written(options.only.split(",") if options.only else PROBLEMS, folder)
    waiting = [path for path in paths if path.stem not in content["rows"]]
    if options.jobs > 1:
        await side_by_side(options, waiting, content)
        return content
    pool = find_pool(options.pool, options.home)
    hardware = detect(pool, options.home)
    async with Device(pool, hardware, options.home) as device:
        for path in waiting:
            keep(options, content, await measured(device, path, hardware, pool.languages[0], options.pairs))
    return content


async def side_by_side(options: argparse.Namespace, waiting: list[Path], content: dict[str, Any]) -> None:
    """``--jobs`` problems at a time, each by a process of its own on cores of its own.

    Each has a home of its own, too: whoever times takes the machine's lease there.
    """

    def finished(command: Sequence[str], status: int, printed: bytes) -> None:
        if status == 0:
            keep(options, content, json.loads(printed)["rows"][Path(command[2]).stem])

    def command(path: Path) -> tuple[str, ...]:
        own = ("--home", str(options.home / path.stem), "--kept", os.devnull)
        shared = ("--pool", options.pool, "--pairs", str(options.pairs), "--json")
        return (sys.executable, __file__, str(path), *own, *shared)

    await on_own_cores(options.jobs, map(command, waiting), finished)


def keep(options: argparse.Namespace, content: dict[str, Any], row: dict[str, Any]) -> None:
    """Write a row to the file, and say what came out."""
    content["rows"][row["problem"]] = row
    summarise(content)
    if options.kept != Path(os.devnull):
        save(options.kept, content)
        print(f"{row['problem']}: {shown(row)[5]}", file=sys.stderr)


def written(names: Iterable[str], folder: Path) -> list[Path]:
    """The benchmark's own problems as files."""
    paths = [folder / f"{name}.py" for name in names]
    for path in paths:
        path.write_text(PROBLEMS[path.stem], encoding="utf-8")
    return paths


def summarise(content: dict[str, Any]) -> None:
    """The two numbers that count."""
    rows = [row for row in content["rows"].values() if "failed" not in row]
    wins = [interval for row in rows if row["win"] for interval in row["again"]]
    content["spreads"] = spreads(rows)
    content["ordinary_over_harness"] = geometric_mean(row["ratio"] for row in rows)
    content["claim_over_claim"] = geometric_mean(row["claims"] for row in rows if "claims" in row)
    content["wins"] = len(wins)
    content["wins_not_repeated"] = sum(interval[0] <= 1 for interval in wins)
    content["wins_below_one"] = sum(interval[2] < 1 for interval in wins)
    content["under_half_a_millisecond"] = sum(row["ordinary_ms"]["eager"] < 0.5 for row in rows)


def shown(row: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    if "failed" in row:
        return (row["problem"], "-", "-", "-", "-", row["failed"][:60], "-", "-", "-")
    low, median, high = row["ordinary"]
    return (
        row["problem"],
        f"{row['ordinary_ms']['eager']:.3f} ms",
        f"{row['ordinary_ms']['candidate']:.3f} ms",
        row["against"],
        f"{row['harness'][1]:.2f}x",
        f"{median:.2f}x",
        f"{low:.2f} to {high:.2f}",
        f"{row['ratio']:.2f}",
        "yes" if row["win"] else "no",
    )


def _begun(options: argparse.Namespace) -> dict[str, Any]:
    """What is there already, unless it is to be measured anew."""
    if options.kept.is_file() and not options.fresh:
        content: dict[str, Any] = json.loads(options.kept.read_text(encoding="utf-8"))
        return content
    return {"benchmark": "ordinary", "date": now(), "versions": versions(), "machine": machine(), "rows": {}}


def main() -> int:
    """Measure, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("files", nargs="*", type=Path, help="problem files instead of the thirty, kept apart")
    parser.add_argument("--pool", default="cpu", help="hardware pool; of an accelerator the call is timed")
    parser.add_argument(
        "--pairs", type=int, default=1, help="how often a win is declared and timed once more, each time anew"
    )
    parser.add_argument("--jobs", type=int, default=1, help="problems measured at a time, each on its own cores")
    parser.add_argument(
        "--home", type=Path, default=WORKSPACE / "ordinary" / "home", help="folder of caches and leases"
    )
    parser.add_argument("--kept", type=Path, help="the file that rows are kept in")
    parser.add_argument("--fresh", action="store_true", help="forget the rows that were kept")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    if unknown := set(filter(None, options.only.split(","))) - set(PROBLEMS):
        parser.error(f"there is no problem {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS)}")
    if not 1 <= options.jobs <= len(os.sched_getaffinity(0)):
        parser.error(f"--jobs is {options.jobs}; give 1 to {len(os.sched_getaffinity(0))}, the cores here")
    options.kept = options.kept or usually_kept(options.pool, bool(options.files))
    try:
        content = asyncio.run(run(options, _begun(options)))
    except KeyboardInterrupt:
        return 130  # the rows that were kept stay
    if options.json:
        print(json.dumps(content))
        return 0
    print(table(HEADER, [shown(row) for row in content["rows"].values()]))
    print(
        f"\ngeometric mean of ordinary over harness: {content['ordinary_over_harness'] or 0:.3f} (goal: 0.95 to 1.05)"
    )
    if content.get("claim_over_claim"):
        print(f"each against its own best baseline, as a session claims it: {content['claim_over_claim']:.3f}")
    if content.get("spreads"):
        print("a ratio differs by", ", ".join(f"{share:.1%} ({level})" for level, share in content["spreads"].items()))
    print(
        f"of {content['wins']} wins the ordinary re-run reaches 1 or less {content['wins_not_repeated']} times, "
        f"and lies below it {content['wins_below_one']} times"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
