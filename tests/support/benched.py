"""Rows of a benchmark for tests, with sensible defaults: a test names only what it is about."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelswarm.bench.kernelbench import KernelBench
from kernelswarm.bench.runs import Outcome, Report, Row, RunConfiguration, Task, report_on
from kernelswarm.schemas import Problem, ProblemError


def row(number: int = 1, **changes: Any) -> Row:
    """Of a kernel that is right and 1.2 times as fast as eager."""
    fields: dict[str, Any] = dict(
        subset="1",
        number=number,
        problem=f"{number}_Problem",
        verdict=Outcome.correct,
        eager_speedup=1.2,
        eager_low=1.1,
        eager_high=1.3,
        compile_speedup=1.05,
        compile_low=0.98,
        compile_high=1.1,
        compile_baseline="compile",
        budget=3,
    )
    return Row(**(fields | changes))


def task(number: int, subset: str = "1", name: str = "") -> Task:
    """One that nobody loads."""
    return Task(subset, number, name or f"{number}_Problem", _not_loaded)


def report(rows: Sequence[Row], *, problems: int, out: Path = Path("rows.csv"), **choices: str) -> Report:
    """On ``rows`` of KernelBench."""
    benchmark = KernelBench()
    configuration = RunConfiguration(
        benchmark=benchmark, root=Path("checkout"), home=Path("home"), choices=benchmark.resolved(choices), out=out
    )
    return report_on(configuration, rows, problems=problems)


def _not_loaded() -> Problem:
    raise ProblemError("this task is not to be loaded")
