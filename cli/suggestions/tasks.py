"""Tasks and leases of sessions that are open."""

import asyncio
import os
from collections.abc import Callable

from ...schemas import KernelswarmError
from ...sessions.home import kernelswarm_home
from ...sessions.outside.joining import outside_author
from ...sessions.outside.records import TaskRow
from ..completion import python_files

TIMEOUT_S = 1.0


def open_sessions(incomplete: str) -> list[str]:
    """Sessions that wait for outside authors and begin with ``incomplete``."""
    return list(dict.fromkeys(task.partition("/")[0] for task in _tasks(incomplete, lambda _: True)))


def task_names(incomplete: str) -> list[str]:
    """Tasks that begin with ``incomplete``, in any state."""
    return _tasks(incomplete, lambda _: True)


def free_tasks(incomplete: str) -> list[str]:
    """Tasks that begin with ``incomplete`` and can be claimed."""
    return _tasks(incomplete, lambda row: row.state == "free")


def held_leases(incomplete: str) -> list[str]:
    """Leases that are held and begin with ``incomplete``; files, where a word is none."""
    leases = [row.lease for row in _rows() if row.lease.startswith(incomplete)]
    return leases or python_files(incomplete)


def _tasks(incomplete: str, wanted: Callable[[TaskRow], bool]) -> list[str]:
    return [row.task for row in _rows() if wanted(row) and row.task.startswith(incomplete)]


def _rows() -> list[TaskRow]:
    async def ask() -> list[TaskRow]:
        async with (
            asyncio.timeout(TIMEOUT_S),
            outside_author(kernelswarm_home(), os.environ.get("KERNELSWARM_NATS", ""), "completion") as author,
        ):
            return await author.tasks()

    try:
        return asyncio.run(ask())
    except (KernelswarmError, TimeoutError):
        return []
