"""The run: every chosen operator and module of PyTorch's own lists, each in a process of its own."""

import fnmatch
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ...hardware.machine.cpu_facts import usable_cores
from ...schemas import InputError
from ..runs.result_files import opened_alone
from .children import Children
from .report import Report, markdown, report_on
from .results_table import ResultsTable
from .row import Outcome, Row
from .task import DTYPES, LANGUAGES, LISTS, Task

_UNENDED = (Outcome.crashed, Outcome.late)


@dataclass(frozen=True)
class Choice:
    """What is run, and how."""

    home: Path
    lists: tuple[str, ...] = LISTS
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    languages: tuple[str, ...] = LANGUAGES
    only: tuple[str, ...] = ()
    """Names, with ``*`` for anything; all where there is none."""
    samples: int = 2
    """Of each name, from the first to the last of its list; 0: all."""
    out: Path | None = None
    fresh: bool = False
    retry: bool = False
    """Do again what is not right."""
    at_once: int | None = None

    @property
    def csv(self) -> Path:
        """The file of results."""
        return self.out or self.home / "opinfo" / "opinfo.csv"

    def check(self) -> None:
        """Find what cannot be meant.

        Raises:
            InputError: a list, dtype, language or number is none, or PyTorch's lists are not installed.
        """
        for what, given, usable in (
            ("list", self.lists, LISTS),
            ("dtype", self.dtypes, DTYPES),
            ("language", self.languages, LANGUAGES),
        ):
            if wrong := [value for value in given if value not in usable]:
                raise InputError(f"there is no {what} {wrong[0]!r}: choose among {', '.join(usable)}")
        if self.samples < 0:
            raise InputError(f"--samples {self.samples}: give how many of each name, 0 for all")
        if self.at_once is not None and self.at_once < 1:
            raise InputError(f"--at-once {self.at_once}: give a number of processes, 1 or more")
        missing = [name for name in ("torch", "expecttest") if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(f"PyTorch's lists need {missing[0]}: `python -m pip install {missing[0]}`")


Told = Callable[[Task, Sequence[Row], int, int], None]
"""Given a task that has ended, its rows, how many have ended, and of how many."""


def bench(choice: Choice, on_rows: Told = lambda task, rows, done, of: None) -> Report:
    """Run what is not done yet, write the CSV file and the Markdown beside it, and report on all that was chosen.

    Raises:
        InputError: an option or the CSV file cannot be used, or PyTorch's lists cannot be imported.
    """
    choice.check()
    children = Children(choice.at_once or usable_cores())
    with opened_alone(choice.csv, ResultsTable) as results:
        tasks = _tasks(choice, children)
        todo = [task for task in tasks if _is_todo(choice, results.rows(task), task)]
        done = len(tasks) - len(todo)
        with closing(children.run(todo)) as ended:
            for task, rows in ended:
                results.put(rows)
                done += 1
                on_rows(task, rows, done, len(tasks))
        return _reported(choice, tasks, results)


def _reported(choice: Choice, tasks: Sequence[Task], results: ResultsTable) -> Report:
    rows = [row for task in tasks for row in results.rows(task)]
    done = sum(bool(results.rows(task)) for task in tasks)
    report = report_on(rows, chosen=len(tasks), done=done, path=str(choice.csv))
    choice.csv.with_suffix(".md").write_text(markdown(report), encoding="utf-8")
    return report


def _tasks(choice: Choice, children: Children) -> list[Task]:
    pairs = [(list_name, dtype) for list_name in choice.lists for dtype in choice.dtypes]
    listed = list(zip(pairs, children.names(pairs), strict=True))
    every = {name for _, names in listed for name in names}
    if strange := [pattern for pattern in choice.only if not fnmatch.filter(every, pattern)]:
        lists, dtypes = ", ".join(choice.lists), ", ".join(choice.dtypes)
        raise InputError(f"no name of PyTorch's {lists} is like {', '.join(map(repr, strange))} in {dtypes}")
    return [
        Task(list_name, name, dtype, choice.languages, choice.samples, str(choice.home / "opinfo"), _versions())
        for (list_name, dtype), names in listed
        for name in names
        if not choice.only or any(fnmatch.fnmatchcase(name, pattern) for pattern in choice.only)
    ]


def _is_todo(choice: Choice, rows: Sequence[Row], task: Task) -> bool:
    if choice.fresh or {row.language for row in rows} != set(task.languages):
        return True
    is_old = any(row.versions != task.versions for row in rows)
    is_wrong = any(row.captured is not Outcome.excluded and not row.is_right for row in rows)
    return is_old or (choice.retry and is_wrong) or any(row.captured in _UNENDED for row in rows)


def _versions() -> str:
    return f"kernelswarm {version('kernelswarm')}, torch {version('torch')}"
