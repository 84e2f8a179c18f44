"""Does the judge agree with itself? Right kernels and near misses, each verified again and again.

Every run has a private secret of its own: other draws, other made-up shapes. A kernel's verdict should not depend on
that. Agreement is the share of evaluations that give the kernel's most frequent verdict (correct, or not).
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from _agreement_kernels import OPERATORS, Operator
from _shared import RESULTS, WORKSPACE, BenchmarkError, machine, now, save, table, versions

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.ir.error_bounds import ErrorBounds
from kernelswarm.codegen.ir.tunables import complete
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness import judging
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.harness.reference_process import ReferenceProcess
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import CompileReport, HardwareFacts, Pool, Problem, VerifyReport, sha256

GOAL = 0.998
HEADER = ("kernel", "runs", "correct", "agree", "worst", "where", "verdicts")
SECONDS = 60.0
"""Limit for one verification."""


@dataclass(frozen=True)
class Kernel:
    """A candidate that is verified in every run."""

    name: str
    problem: Problem
    source: str
    compiled: CompileReport
    is_near_miss: bool

    @property
    def key(self) -> str:
        """What its results are kept under: another source is another kernel."""
        return sha256(f"{self.problem.sha256}\0{self.source}")[:16]


def winner_source(operator: Operator, facts: Any, hardware: HardwareFacts) -> str:
    """What the generator writes for the operator's config.

    Raises:
        BenchmarkError: nothing, or the config names a value that this operator does not have.
    """
    backend = CODEGEN_BACKENDS["cpp"]
    tunables = backend.tunables(facts.graph, hardware, ErrorBounds.of_problem(facts)) if facts.graph else None
    if tunables is None:
        raise BenchmarkError(f"{operator.name} has no kernel: {facts.capture_error or 'nothing to fuse'}")
    unknown = {name: value for name, value in operator.config.items() if value not in tunables.get(name, ())}
    if unknown:
        raise BenchmarkError(f"{operator.name} has no such settings: {unknown}; it has {tunables}")
    return backend.source(facts, facts.graph, complete(operator.config, tunables), hardware)


def problem_of(operator: Operator, folder: Path) -> Problem:
    """The operator's problem, from a file as users write it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{operator.name}.py"
    path.write_text(operator.problem, encoding="utf-8")
    return load_problem(path)


async def prepare(operators: list[Operator], device: Device, hardware: HardwareFacts, folder: Path) -> list[Kernel]:
    """Both kernels of every operator, compiled."""
    kernels = []
    for operator in operators:
        problem = problem_of(operator, folder)
        facts = await device.validate_problem(problem)
        sources = {
            operator.name: winner_source(operator, facts, hardware),
            f"{operator.name}: {operator.mistake}": operator.wrong_kernel,
        }
        for name, source in sources.items():
            compiled, _ = await device.compile(source, "cpp")
            kernels.append(Kernel(name, problem, source, compiled, name != operator.name))
    return kernels


def evaluation(kernel: Kernel, run: int, report: VerifyReport) -> dict[str, Any]:
    """What is kept of one verification."""
    shares: dict[str, float] = defaultdict(float)
    for case in report.cases:
        share = case.error / case.bound if case.bound else float(case.error > 0)
        shares[case.inputs] = max(shares[case.inputs], min(share, 1e9))
    evidence = report.evidence
    return {
        "key": kernel.key,
        "run": run,
        "verdict": report.verdict.value,
        "inputs": (evidence.inputs or "normal") if evidence else "",
        "message": evidence.message if evidence else "",
        "shares": shares,
        "seconds": report.seconds,
    }


async def verify_all(
    launcher: Launcher, pool: Pool, kernels: list[Kernel], run: int, done: set[tuple[str, int]]
) -> Iterator[dict[str, Any]]:
    """One run: every kernel that has no result for it yet, on the draws of a new secret."""
    results = []
    for problem in {kernel.problem.sha256: kernel.problem for kernel in kernels}.values():
        waiting = [k for k in kernels if k.problem is problem and (k.key, run) not in done]
        if not waiting:
            continue
        host = ReferenceProcess(launcher, problem, f"agreement {run}")
        try:
            await host.prepare()
            for kernel in waiting:
                report = await judging.verify(
                    launcher, host, problem, kernel.source, kernel.compiled, pool.candidate_seconds
                )
                results.append(evaluation(kernel, run, report))
        finally:
            await host.close()
    return iter(results)


def read(path: Path) -> list[dict[str, Any]]:
    """Evaluations of earlier calls."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def facts_of(kernel: Kernel, evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    """How often which verdict, and how far from the bound, by kind of inputs."""
    verdicts = Counter(record["verdict"] for record in evaluations)
    correct = verdicts["correct"]
    shares: dict[str, list[float]] = defaultdict(list)
    for record in evaluations:
        for inputs, share in record["shares"].items():
            shares[inputs].append(share)
    return {
        "kernel": kernel.name,
        "near_miss": kernel.is_near_miss,
        "runs": len(evaluations),
        "correct": correct,
        "agree": max(correct, len(evaluations) - correct),
        "verdicts": dict(verdicts),
        "failed_on": dict(Counter(record["inputs"] for record in evaluations if record["inputs"])),
        "error_over_bound": {inputs: _distribution(values) for inputs, values in shares.items()},
        "seconds": statistics.median(record["seconds"] for record in evaluations),
    }


def _distribution(shares: list[float]) -> dict[str, float]:
    return {
        "runs": len(shares),
        "least": round(min(shares), 3),
        "median": round(statistics.median(shares), 3),
        "most": round(max(shares), 3),
    }


def row(facts: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    shares = facts["error_over_bound"]
    worst_inputs = max(shares, key=lambda inputs: shares[inputs]["most"], default="")
    worst = f"{shares[worst_inputs]['most']:.2f}" if worst_inputs else "-"
    verdicts = ", ".join(f"{name} {count}" for name, count in facts["verdicts"].items())
    agree = f"{facts['agree']} of {facts['runs']}"
    return (facts["kernel"], str(facts["runs"]), str(facts["correct"]), agree, worst, worst_inputs, verdicts)


def summary(kernels: list[Kernel], evaluations: list[dict[str, Any]], start: dict[str, Any]) -> dict[str, Any]:
    """What all runs say."""
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in evaluations:
        by_key[record["key"]].append(record)
    facts = [facts_of(kernel, by_key[kernel.key]) for kernel in kernels if by_key[kernel.key]]
    count, agree = sum(fact["runs"] for fact in facts), sum(fact["agree"] for fact in facts)
    return {
        **start,
        "kernels": facts,
        "evaluations": count,
        "agree": agree,
        "agree_of_1000": 1000 * agree / count if count else None,
        "winners_refused": sum(fact["runs"] - fact["correct"] for fact in facts if not fact["near_miss"]),
        "near_misses_accepted": sum(fact["correct"] for fact in facts if fact["near_miss"]),
    }


async def measure(options: argparse.Namespace, operators: list[Operator], path: Path) -> dict[str, Any]:
    """All runs; what earlier calls have measured is not measured again."""
    home = WORKSPACE / "agreement" / "home"
    pool = msgspec.structs.replace(find_pool("cpu", home), candidate_seconds=SECONDS)
    hardware = detect(pool, home)
    start = {"benchmark": "agreement", "date": now(), "versions": versions(), "machine": machine()}
    async with Device(pool, hardware, home, baselines=("eager",)) as device:
        kernels = await prepare(operators, device, hardware, WORKSPACE / "agreement" / "problems")
    evaluations = read(path)
    done = {(record["key"], record["run"]) for record in evaluations}
    launcher = Launcher(pool, hardware, home)
    try:
        for run in range(options.first, options.first + options.runs):
            for record in await verify_all(launcher, pool, kernels, run, done):
                evaluations.append(record)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
            print(f"run {run} is done", file=sys.stderr)
    finally:
        await launcher.close()
    runs = range(options.first, options.first + options.runs)
    return summary(kernels, [record for record in evaluations if record["run"] in runs], start)


def main() -> int:
    """Verify, count, print how often the judge agrees with itself."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50, help="verifications of each kernel, with a new secret each")
    parser.add_argument("--first", type=int, default=0, help="number of the first run: others have other draws")
    parser.add_argument("--only", default="", help="names of operators, with commas in between")
    parser.add_argument("--kept", type=Path, default=WORKSPACE / "agreement" / "evaluations.jsonl")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    operators = [operator for operator in OPERATORS if not names or operator.name in names]
    if options.runs < 1 or len(operators) < len(names):
        parser.error(f"give --runs of 1 or more, and --only of {', '.join(operator.name for operator in OPERATORS)}")
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = asyncio.run(measure(options, operators, options.kept))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # what was kept stays
    if not names:
        save(RESULTS / "agreement.json", content)
    if options.json:
        print(json.dumps(content))
    else:
        print(table(HEADER, [row(facts) for facts in content["kernels"]]))
        print(f"\nthe same verdict: {content['agree_of_1000']:.1f} of 1000 (goal: {1000 * GOAL:.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
