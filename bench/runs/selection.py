"""Which tasks ``--problems`` means. Pure."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ...schemas import InputError
from .benchmark import Task
from .row import Key

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def selected(tasks: Sequence[Task], problems: str) -> list[Task]:
    """Those of ``tasks`` that ``problems`` names, by number or name, as ``1-20,33,*relu*``; all if it is empty.

    Raises:
        InputError: a piece of it names none.
    """
    pieces = [piece.strip() for piece in problems.split(",") if piece.strip()]
    if not pieces:
        return list(tasks)
    chosen: set[Key] = set()
    for piece in pieces:
        named = [task.key for task in tasks if _names(piece, task)]
        if not named:
            raise _nothing_named(piece, tasks)
        chosen.update(named)
    return [task for task in tasks if task.key in chosen]


def _names(piece: str, task: Task) -> bool:
    match = _RANGE.fullmatch(piece)
    if match is None:
        return fnmatchcase(task.name.lower(), piece.lower())
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise InputError(f"problems {piece!r} runs backwards: write {last}-{first}")
    return first <= task.number <= last


def _nothing_named(piece: str, tasks: Sequence[Task]) -> InputError:
    numbers = [task.number for task in tasks]
    return InputError(
        f"problems {piece!r} names no problem: numbers go from {min(numbers)} to {max(numbers)} (as 1-20,33), "
        f"names are such as {tasks[0].name} (as *{tasks[0].name[-6:]})"
    )
