"""KernelBench (Ouyang et al., 2025): levels of PyTorch modules, a file each."""

import importlib.util
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ..hardware.sources.problem_files import load_problem
from ..schemas import InputError, Problem, ProblemError
from .runs import Benchmark, Choice, Task

SOURCE = "https://github.com/ScalingIntelligence/KernelBench"

PRETRAINED = "4"
"""The level whose models are downloaded."""

_FILE = re.compile(r"(\d+)_.+\.py")
_LEVEL = re.compile(r"level(\d+)")


class KernelBench(Benchmark):
    """A checkout as the user has it: its levels, and the problem files of one of them."""

    name = "kernelbench"
    title = "KernelBench"
    summary = "Run KernelBench: PyTorch modules in four levels, a file each."
    checkout = "Root of a checkout of KernelBench (it has KernelBench/level1)."
    choices = (Choice("level", "Level of the benchmark.", "1", ("1", "2", "3", "4")),)
    examples = (
        f"git clone {SOURCE}",
        "kernelswarm bench kernelbench KernelBench --level 1 --pool h200",
        "kernelswarm bench kernelbench KernelBench --level 2 --problems 1-20,33 --budget 8 --out level2.csv",
        "kernelswarm bench kernelbench KernelBench --level 1 --pool h200 --at-once 4",
        "kernelswarm bench kernelbench KernelBench --json | jq '.fast_p[] | {against, p, share}'",
    )

    def tasks(self, root: Path | None, choices: Mapping[str, str]) -> list[Task]:
        """The problems of a level, by number."""
        assert root is not None
        levels, level = _levels(root), choices["level"]
        if level not in levels:
            raise InputError(f"{root} has no level {level}; choose one of {', '.join(sorted(levels))}")
        tasks = [
            Task(level, int(match[1]), path.stem, partial(_pretrained if level == PRETRAINED else load_problem, path))
            for path in levels[level].iterdir()
            if (match := _FILE.fullmatch(path.name))
        ]
        if not tasks:
            raise InputError(f"{levels[level]} holds no problem (files such as 19_ReLU.py); check the checkout")
        return sorted(tasks, key=lambda task: (task.number, task.name))


def _pretrained(path: Path) -> Problem:
    """A problem of level 4: its model's weights come from Hugging Face, and the judge's processes have no network.

    Raises:
        ProblemError: the package or the weights are not on this machine, or it is no problem.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    match = re.search(r"""^model_name = ['"]([\w./-]+)['"]""", text, re.MULTILINE)
    model = match[1] if match else "its model"
    if importlib.util.find_spec("transformers") is None:
        raise ProblemError(
            f"{path.name} needs model weights: install transformers, and download {model} (hf download {model}); "
            "the judge's processes have no network"
        )
    if match and not (_hub() / f"models--{model.replace('/', '--')}").is_dir():
        raise ProblemError(
            f"{path.name} needs model weights that are not on this machine: hf download {model}; the judge's "
            "processes have no network"
        )
    return load_problem(path)


def _hub() -> Path:
    """Where Hugging Face keeps what was downloaded."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")


def _levels(root: Path) -> dict[str, Path]:
    """The folders of levels by number; ``root`` may be the checkout or the folder in it that holds the levels."""
    if not root.exists():
        raise InputError(f"there is no folder {root}; give the root of a checkout: git clone {SOURCE}")
    if not root.is_dir():
        raise InputError(f"{root} is no folder; give the root of a checkout: git clone {SOURCE}")
    for folder in (root / "KernelBench", root):
        if not folder.is_dir():
            continue
        levels = {match[1]: path for path in folder.iterdir() if (match := _LEVEL.fullmatch(path.name))}
        if levels:
            return levels
    raise InputError(f"{root} is no checkout of KernelBench: it has no folder KernelBench/level1; git clone {SOURCE}")
