"""NVIDIA's SOL-ExecBench (Lin et al., 2026): operators of production models, each with many workloads."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from ...schemas import InputError, ProblemError
from ..runs import Benchmark, Choice, Measured, Task
from .definition import read_definition
from .problem import load

SOURCE = "https://github.com/NVIDIA/SOL-ExecBench"

PLACES = ("data/SOL-ExecBench/benchmark", "data/benchmark", "benchmark", "data", "")
"""Where problems lie in a checkout, the first that has any; without downloaded data the examples are found."""

DEEPEST = 4
"""Folders below such a place that are looked through."""

MOST_TIMED = 8


class SolExecBench(Benchmark):
    """Folders with ``definition.json`` and ``workload.jsonl``; the folder above them is the category."""

    name = "sol-execbench"
    title = "SOL-ExecBench"
    summary = "Run SOL-ExecBench: operators of production models, checked at every workload."
    checkout = "Root of a checkout of SOL-ExecBench with its data, or any folder with problems below it."
    choices = (
        Choice("category", "Category of problems; by default all.", "", ("L1", "L2", "Quant", "FlashInfer-Bench")),
        Choice("timed", "Workloads of a problem to time, spread over their sizes; every one is checked.", "1"),
    )
    examples = (
        f"git clone {SOURCE} && SOL-ExecBench/scripts/download_data.sh",
        "kernelswarm bench sol-execbench SOL-ExecBench --category L1 --pool h200 --budget 4",
        "kernelswarm bench sol-execbench SOL-ExecBench --problems '*rms_norm*' --timed 4 --out norms.csv",
        "kernelswarm bench sol-execbench SOL-ExecBench/examples --json | jq .score",
    )
    score_name = "SOL score"

    def tasks(self, root: Path | None, choices: Mapping[str, str]) -> list[Task]:
        """The problems of a category, by number."""
        assert root is not None
        timed, category = _number(choices["timed"]), choices["category"]
        place, folders = _problems(root)
        subsets = sorted({_subset(folder, place) for folder in folders})
        if category and category not in subsets:
            raise InputError(f"{place} has no category {category}; choose one of {', '.join(subsets)}")
        folders = [folder for folder in folders if category in ("", _subset(folder, place))]
        tasks = [_task(index, folder, place, timed) for index, folder in enumerate(folders, 1)]
        return sorted(tasks, key=lambda task: (task.subset, task.number, task.name))

    def score(self, shapes: Sequence[Measured]) -> float | None:
        """Distance to the speed of light, from 0 to 1; 0.5 is as fast as the best PyTorch baseline of the same run.

        Their formula, ``1 / (1 + (kernel - limit) / (baseline - limit))``, with the limit of the device at hand: the
        roofline's, where theirs is computed for one GPU. The mean over the timed workloads.
        """
        scores = [_score(shape, shape.roofline_fraction) for shape in shapes if shape.roofline_fraction is not None]
        return fmean(scores) if scores else None


def _score(shape: Measured, fraction: float) -> float:
    limit = fraction * shape.kernel_ms
    gap, rest = min(shape.baselines_ms) - limit, max(0.0, shape.kernel_ms - limit)
    if gap <= 0:
        return 1.0 if rest <= 0 else 0.0
    return gap / (gap + rest)


def _number(timed: str) -> int:
    if not timed.isdigit() or not 1 <= int(timed) <= MOST_TIMED:
        raise InputError(f"timed {timed!r}: give a number of workloads from 1 to {MOST_TIMED}")
    return int(timed)


def _problems(root: Path) -> tuple[Path, list[Path]]:
    """The folder that holds the problems' categories, and the problems below it."""
    if not root.is_dir():
        raise InputError(f"there is no folder {root}; give the root of a checkout: git clone {SOURCE}")
    for place in (root / part for part in PLACES):
        below = [place / "/".join(["*"] * depth) for depth in range(DEEPEST + 1)] if place.is_dir() else []
        patterns = [str(Path(*pattern.relative_to(place).parts, "definition.json")) for pattern in below]
        folders = sorted({path.parent for pattern in patterns for path in place.glob(pattern) if _is_problem(path)})
        if folders:
            return place, folders
    raise InputError(
        f"{root} holds no problem of SOL-ExecBench (a folder with definition.json and workload.jsonl); "
        f"git clone {SOURCE}, and run its scripts/download_data.sh"
    )


def _is_problem(definition: Path) -> bool:
    return definition.with_name("workload.jsonl").is_file()


def _subset(folder: Path, place: Path) -> str:
    return folder.parent.name if folder != place else ""


def _task(index: int, folder: Path, place: Path, timed: int) -> Task:
    name = folder.resolve().name
    if name.isdigit():
        try:
            name = read_definition(folder).name
        except ProblemError:
            name = folder.name  # what is wrong with it becomes its row
    prefix = name.partition("_")[0]
    number = int(prefix) if prefix.isdigit() else index
    return Task(_subset(folder, place), number, name, partial(load, folder, place, name, timed))


__all__ = ["SolExecBench"]
