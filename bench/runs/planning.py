"""What of the chosen problems is to be done: what has no row, a row that no longer stands, or one under way. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from .benchmark import Task
from .row import Key, Outcome, Row, changes

TRIED_AGAIN = (Outcome.crash, Outcome.timeout)
"""What ``--retry`` does again: outcomes that another day may change."""

MOST_NAMES = 3


@dataclass(frozen=True)
class Plan:
    """What a run has before it."""

    todo: tuple[Task, ...]
    """In the order of their numbers."""
    resumable: tuple[Row, ...]
    """Rows of those of them whose session was under way when an earlier run ended."""
    again: frozenset[Key]
    """Those that are done already, and are done again."""
    messages: tuple[str, ...]
    """Why, and what is left out; a line each."""


def plan(tasks: Sequence[tuple[Task, Row | None, Row]], *, fresh: bool = False, retry: bool = False) -> Plan:
    """Decide for each task, given its kept row (if it has one) and the row that it would have now."""
    todo: list[Task] = []
    resumable: list[Row] = []
    again: dict[Key, str] = {}
    for task, kept_row, new_row in tasks:
        why = "" if kept_row is None else _why_again(kept_row, new_row, fresh=fresh, retry=retry)
        if why:
            again[task.key] = why
        if kept_row is None or why or kept_row.verdict is Outcome.running:
            todo.append(task)
        if kept_row is not None and not why and kept_row.verdict is Outcome.running:
            resumable.append(kept_row)
    done = len(tasks) - len(todo)
    messages = [*([f"{done} of {len(tasks)} problems are done already"] if done else []), *_reasons(again)]
    return Plan(tuple(todo), tuple(resumable), frozenset(again), tuple(messages))


def _why_again(kept_row: Row, new_row: Row, *, fresh: bool, retry: bool) -> str:
    """Why a problem that has a row is done again; empty if the row stands."""
    if fresh:
        return "as --fresh asks"
    changed = changes(kept_row, new_row)
    if changed:
        return f"{' and '.join(changed)} changed"
    return f"it ended with a {kept_row.verdict}" if retry and kept_row.verdict in TRIED_AGAIN else ""


def _reasons(again: dict[Key, str]) -> list[str]:
    """A line for each reason: after a change of the budget it is the same for a hundred problems."""
    names: dict[str, list[str]] = defaultdict(list)
    for (_, name), why in again.items():
        names[why].append(name)
    return [f"done again, {why}: {_listed(group)}" for why, group in names.items()]


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
