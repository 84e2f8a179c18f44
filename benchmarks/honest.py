"""How often does the judge convict honest kernels? Seventy-one of them, verified and timed again and again.

The kernels are ``tests/adversarial/honest``: thread pools, numpy, scratch buffers, non-contiguous work, native code,
online algorithms, other summation orders, modules as KernelBench's users write them. Every verdict but ``correct`` is
a false conviction, and with ``--thorough`` a doubt of how fast it is (``doubted``). Each evaluation has private draws
of its own. Where the judge gives up ("the machine is so busy"), the evaluation counts as undecided: it convicts nobody.

Counts are kept after each evaluation in ``results/honest.json``: an interrupted run goes on where it was, and a kernel
whose text changed begins anew. After a change of the judge, pass ``--fresh``.

With ``--jobs N`` N kernels are evaluated at a time, each on cores of its own: for machines with many cores.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from _shared import RESULTS, ROOT, WORKSPACE, commit, fresh_folder, machine, now, on_own_cores, save, table, versions

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.timing.one_by_one import doubt
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.problem_files import load_candidate, load_problem
from kernelswarm.schemas import (
    Evidence,
    HarnessError,
    KernelswarmError,
    Problem,
    ProblemFacts,
    ProfileReport,
    Verdict,
    VerifyReport,
    sha256,
)

sys.path.insert(0, str(ROOT / "tests" / "support"))
from honest import HonestKernel, honest_kernels

GOAL = 1.0
"""False convictions in 1,000 evaluations."""
KEPT = RESULTS / "honest.json"
HEADER = ("kernel", "evaluations", "correct", "convicted", "undecided", "seconds", "speedup", "verdicts")
EXAMPLES = """
examples:
  python benchmarks/honest.py                                 # 20 evaluations of each kernel
  python benchmarks/honest.py --evaluations 3 --only softmax  # the kernels of one problem
  python benchmarks/honest.py --only rows/thread_pool,lstm --json
  python benchmarks/honest.py --busy                          # one core is kept busy meanwhile
  python benchmarks/honest.py --thorough                      # timed as finalists are, in four processes
  python benchmarks/honest.py --jobs 8                        # eight kernels at a time, on a machine of 16 cores
"""

Row = dict[str, Any]


class Counts:
    """What is kept of all evaluations: a row for each kernel and mode."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self._path = path
        start = {"benchmark": "honest", "date": now(), "versions": versions(), "machine": machine(), "rows": {}}
        self.content = start if fresh or not path.exists() else json.loads(path.read_text(encoding="utf-8"))

    def row(self, kernel: HonestKernel, mode: str) -> Row:
        """The row of a kernel, empty if its text or its problem's was another one when it was counted."""
        key = sha256(kernel.problem.read_text(encoding="utf-8") + "\0" + kernel.path.read_text(encoding="utf-8"))[:16]
        rows = self.content["rows"]
        name = f"{kernel.name} {mode}"
        if rows.get(name, {}).get("key") != key:
            rows[name] = {"kernel": kernel.name, "mode": mode, "key": key, "evaluations": 0}
            rows[name] |= {"verdicts": {}, "seconds": [], "speedups": [], "refusals": []}
        return rows[name]

    def add(self, row: Row, result: Row) -> None:
        """Count one evaluation and write the file."""
        verdict = result["verdict"]
        row["evaluations"] += 1
        row["verdicts"][verdict] = row["verdicts"].get(verdict, 0) + 1
        row["seconds"].append(result.pop("seconds"))
        if (speedup := result.pop("speedup", None)) is not None:
            row["speedups"].append(speedup)
        if verdict != Verdict.correct:
            row["refusals"].append({**result, "date": now(), "commit": commit()})
        self._save()

    def merge(self, path: Path) -> None:
        """Take the rows of another process, as far as it came; rows that have more evaluations here stay."""
        if path.exists():
            rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
            for name, row in rows.items():
                mine = self.content["rows"].get(name)
                if mine is None or (mine["key"] == row["key"] and mine["evaluations"] < row["evaluations"]):
                    self.content["rows"][name] = row
            self._save()

    def _save(self) -> None:
        self.content["rows"] = dict(sorted(self.content["rows"].items()))
        self.content.update(totals(self.content["rows"].values()))
        save(self._path, self.content)


def totals(rows: Collection[Row]) -> Row:
    """Convictions in 1,000 evaluations that came to a verdict."""
    count = sum(row["evaluations"] for row in rows)
    undecided = sum(row["verdicts"].get("undecided", 0) for row in rows)
    convicted = sum(_convicted(row) for row in rows)
    per_1000 = 1000 * convicted / (count - undecided) if count > undecided else None
    return {"evaluations": count, "undecided": undecided, "convicted": convicted, "convicted_of_1000": per_1000}


def _convicted(row: Row) -> int:
    verdicts = row["verdicts"]
    return int(row["evaluations"] - verdicts.get("correct", 0) - verdicts.get("undecided", 0))


async def evaluated(device: Device, problem: Problem, facts: ProblemFacts, source: str, thorough: bool) -> Row:
    """One evaluation: verified, then timed if it was found correct."""
    began = time.perf_counter()
    speedup = None
    try:
        compiled, _ = await device.compile(source, "cpp")
        report: VerifyReport | ProfileReport = await device.verify(problem, source, compiled)
        stage = "verification"
        if report.verdict is Verdict.correct:
            report = await device.profile(problem, facts, source, compiled, thorough=thorough)
            stage = "timing"
            if report.timing is not None:
                speedup = round(report.timing.speedup[report.timing.best].median, 3)
        verdict, evidence = report.verdict.value, _evidence(report.evidence)
        if isinstance(report, ProfileReport) and report.timing and (reason := doubt(report.timing, "best")):
            verdict, evidence = "doubted", {"message": reason}
    except HarnessError as error:
        verdict, stage, evidence = "undecided", "", {"message": str(error)}
    seconds = round(time.perf_counter() - began, 1)
    return {"verdict": verdict, "stage": stage, "evidence": evidence, "seconds": seconds, "speedup": speedup}


def _evidence(evidence: Evidence | None) -> Row:
    """What differs from its default; no log longer than a screen."""
    shown = {} if evidence is None else {key: value for key, value in msgspec.to_builtins(evidence).items() if value}
    return {key: value[-2000:] if isinstance(value, str) else value for key, value in shown.items()}


async def round_of(
    device: Device, counts: Counts, kernels: list[HonestKernel], options: argparse.Namespace, number: int
) -> None:
    """Evaluate once every kernel that has fewer than ``number`` evaluations."""
    mode = mode_of(options)
    waiting = [kernel for kernel in kernels if counts.row(kernel, mode)["evaluations"] < number]
    for path, group in groupby(waiting, key=lambda kernel: kernel.problem):
        problem = load_problem(path)
        try:
            facts = await device.validate_problem(problem)
            for kernel in group:
                source = load_candidate(kernel.path)
                result = await evaluated(device, problem, facts, source, options.thorough)
                reason = "" if result["verdict"] == "correct" else f": {result['evidence'].get('message', '')[:200]}"
                print(f"{number} {kernel.name}: {result['verdict']}{reason}", file=sys.stderr)
                counts.add(counts.row(kernel, mode), result)
        finally:
            await device.forget(problem)


async def run(options: argparse.Namespace, counts: Counts, kernels: list[HonestKernel]) -> None:
    """All rounds; the draws of each are others, because a problem is forgotten after its round."""
    first = 1 + min(counts.row(kernel, mode_of(options))["evaluations"] for kernel in kernels)
    if first > options.evaluations:
        return
    pool = find_pool("cpu", options.home)
    hardware = detect(pool, options.home)
    async with Device(pool, hardware, options.home, baselines=("eager",)) as device:
        for number in range(first, options.evaluations + 1):
            await round_of(device, counts, kernels, options, number)


async def side_by_side(options: argparse.Namespace, counts: Counts, kernels: list[HonestKernel]) -> None:
    """``--jobs`` kernels at a time, each by a process of its own, with a home of its own, on cores of its own."""
    if not options.fresh:
        # A run that was killed has not merged what it counted.
        for kept in sorted((options.home / "jobs").glob("*.json")):
            counts.merge(kept)
    folder = fresh_folder(options.home / "jobs")
    flags = [flag for flag in ("--busy", "--thorough") if getattr(options, flag[2:])]
    mode = mode_of(options)

    def command(number: int, kernel: HonestKernel) -> tuple[str, ...]:
        kept = folder / f"{number}.json"
        row = counts.row(kernel, mode)
        save(kept, counts.content | {"rows": {f"{kernel.name} {mode}": row} if row["evaluations"] else {}})
        shared = ("--evaluations", str(options.evaluations), "--kept", str(kept), "--home", str(folder / str(number)))
        return (sys.executable, __file__, "--only", kernel.name, *shared, "--json", *flags)

    commands = [command(number, kernel) for number, kernel in enumerate(kernels)]
    try:
        await on_own_cores(options.jobs, commands, lambda *_: None)
    finally:
        for number in range(len(kernels)):
            counts.merge(folder / f"{number}.json")


def mode_of(options: argparse.Namespace) -> str:
    """What is counted apart."""
    return ("busy" if options.busy else "quiet") + (" thorough" if options.thorough else "")


@contextlib.contextmanager
def load_of_one_core(enabled: bool) -> Iterator[None]:
    """A process that computes while this is open."""
    if not enabled:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: sum(range(10000))"]) as process:
        try:
            yield
        finally:
            process.kill()


def shown(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    verdicts = row["verdicts"]
    middle = sorted(row["speedups"])[len(row["speedups"]) // 2] if row["speedups"] else None
    return (
        f"{row['kernel']} ({row['mode']})",
        str(row["evaluations"]),
        str(verdicts.get("correct", 0)),
        str(_convicted(row)),
        str(verdicts.get("undecided", 0)),
        f"{sum(row['seconds']) / len(row['seconds']):.1f}",
        "-" if middle is None else f"{middle:.2f}x",
        ", ".join(f"{name} {count}" for name, count in verdicts.items()),
    )


def refusals(rows: list[Row]) -> Iterator[str]:
    """Every verdict but ``correct``, with its evidence."""
    for row in rows:
        for refusal in row["refusals"]:
            yield f"{row['kernel']} ({row['mode']}, {refusal['stage']}): {refusal['verdict']}"
            yield f"    {json.dumps(refusal['evidence'])}"


def selected(names: list[str]) -> list[HonestKernel]:
    """The kernels named ``problem`` or ``problem/kernel``; all for no name.

    Raises:
        KernelswarmError: there is none of a name.
    """
    kernels = honest_kernels()
    everything = {name for kernel in kernels for name in (kernel.name, kernel.path.parent.name)}
    if unknown := [name for name in names if name not in everything]:
        raise KernelswarmError(
            f"there is no honest kernel {', '.join(unknown)}; there are {', '.join(sorted(everything))}"
        )
    return [kernel for kernel in kernels if not names or {kernel.name, kernel.path.parent.name} & set(names)]


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    description, _, more = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=more + EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluations", type=int, default=20, help="of each kernel, those that were kept included")
    parser.add_argument("--only", default="", help="problems or problem/kernel, with commas in between")
    parser.add_argument("--busy", action="store_true", help="keep one core busy meanwhile; counted apart")
    parser.add_argument("--thorough", action="store_true", help="time in four processes; counted apart")
    parser.add_argument("--jobs", type=int, default=1, help="kernels evaluated at a time, each on its own cores")
    parser.add_argument("--fresh", action="store_true", help="forget the counts that were kept")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the file that counts are kept in")
    parser.add_argument("--home", type=Path, default=WORKSPACE / "honest" / "home", help="folder of compiled kernels")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    return parser


def main() -> int:
    """Evaluate, count, print; exit status 1 if more are convicted than the goal allows."""
    parser = arguments()
    options = parser.parse_args()
    try:
        kernels = selected([name for name in options.only.split(",") if name])
    except KernelswarmError as error:
        parser.error(str(error))
    if options.evaluations < 1:
        parser.error(f"--evaluations is {options.evaluations}; give 1 or more")
    if not 1 <= options.jobs <= len(os.sched_getaffinity(0)):
        parser.error(f"--jobs is {options.jobs}; give 1 to {len(os.sched_getaffinity(0))}, the cores here")
    counts = Counts(options.kept, fresh=options.fresh)
    try:
        if options.jobs > 1:
            asyncio.run(side_by_side(options, counts, kernels))
            return report(counts.content, as_json=options.json)
        with load_of_one_core(options.busy):
            asyncio.run(run(options, counts, kernels))
    except KeyboardInterrupt:
        return 130  # what was kept stays
    return report(counts.content, as_json=options.json)


def report(content: Row, *, as_json: bool) -> int:
    """Print what was counted."""
    if as_json:
        print(json.dumps(content))
    else:
        rows = [row for row in content["rows"].values() if row["evaluations"]]
        print(table(HEADER, [shown(row) for row in rows]))
        print("\n".join(["", *refusals(rows)]))
        print(f"convicted: {content['convicted']} of {content['evaluations'] - content['undecided']}", end="")
        print(
            f", {content['convicted_of_1000'] or 0:.1f} of 1000 (goal: {GOAL:.0f}); undecided: {content['undecided']}"
        )
    return int((content["convicted_of_1000"] or 0) > GOAL)


if __name__ == "__main__":
    sys.exit(main())
