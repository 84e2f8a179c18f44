"""A checkout of KernelBench as the user has it: its levels, and the problem files of one of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...schemas import InputError

SOURCE = "https://github.com/ScalingIntelligence/KernelBench"

_FILE = re.compile(r"(\d+)_.+\.py")
_LEVEL = re.compile(r"level(\d+)")
_PIECE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Task:
    """One problem of a level."""

    level: int
    number: int
    """As the file's name begins."""
    path: Path

    @property
    def name(self) -> str:
        """The file's stem: ``19_ReLU``."""
        return self.path.stem


def tasks_of(root: Path, level: int) -> list[Task]:
    """The problems of ``level`` in the checkout at ``root``, by number.

    Raises:
        InputError: there is no such folder, it is no checkout, or it has no such level.
    """
    levels = _levels(root)
    if level not in levels:
        there = ", ".join(map(str, sorted(levels)))
        raise InputError(f"{root} has no level {level}; choose one of {there}")
    tasks = [
        Task(level, int(match[1]), path) for path in levels[level].iterdir() if (match := _FILE.fullmatch(path.name))
    ]
    if not tasks:
        raise InputError(f"{levels[level]} holds no problem (files such as 19_ReLU.py); check the checkout")
    return sorted(tasks, key=lambda task: (task.number, task.name))


def chosen(tasks: Sequence[Task], problems: str) -> list[Task]:
    """Those of ``tasks`` that ``problems`` names, as ``1-20,33``; all if it is empty.

    Raises:
        InputError: it cannot be read, or a piece of it names none.
    """
    pieces = [piece.strip() for piece in problems.split(",") if piece.strip()]
    if not pieces:
        return list(tasks)
    numbers = {task.number for task in tasks}
    selection: set[int] = set()
    for piece in pieces:
        named = _range(piece)
        if not any(number in named for number in numbers):
            raise InputError(
                f"problems {piece!r} names no problem of level {tasks[0].level}: "
                f"its numbers go from {min(numbers)} to {max(numbers)}"
            )
        selection |= {number for number in numbers if number in named}
    return [task for task in tasks if task.number in selection]


def _range(piece: str) -> range:
    match = _PIECE.fullmatch(piece)
    if match is None:
        raise InputError(f"problems {piece!r} is not understood: write numbers and ranges, as 1-20,33")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise InputError(f"problems {piece!r} runs backwards: write {last}-{first}")
    return range(first, last + 1)


def _levels(root: Path) -> dict[int, Path]:
    """The folders of levels by number; ``root`` may be the checkout or the folder in it that holds the levels."""
    if not root.exists():
        raise InputError(f"there is no folder {root}; give the root of a checkout: git clone {SOURCE}")
    if not root.is_dir():
        raise InputError(f"{root} is no folder; give the root of a checkout: git clone {SOURCE}")
    for folder in (root / "KernelBench", root):
        if not folder.is_dir():
            continue
        levels = {int(match[1]): path for path in folder.iterdir() if (match := _LEVEL.fullmatch(path.name))}
        if levels:
            return levels
    raise InputError(f"{root} is no checkout of KernelBench: it has no folder KernelBench/level1; git clone {SOURCE}")
