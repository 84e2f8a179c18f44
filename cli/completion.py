"""What the shell offers on Tab: pools, sessions, problem files. Quick and silent; nothing to offer is an answer too."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from ..hardware.pools.pool_files import load_pools
from ..schemas import KernelswarmError
from ..sessions.home import kernelswarm_home
from ..sessions.outside.joining import outside_author
from ..sessions.outside.records import TaskRow
from ..store import log_path, questions, run_sql

LATEST = 50
"""Sessions that are offered."""

TIMEOUT_S = 1.0


def pool_names(incomplete: str) -> list[str]:
    """Pools whose name begins with ``incomplete``."""
    try:
        return [name for name in load_pools(kernelswarm_home()) if name.startswith(incomplete)]
    except KernelswarmError:
        return []


def session_ids(incomplete: str) -> list[str]:
    """The latest sessions whose id begins with ``incomplete``, newest first."""
    # The opening events alone: the view would add up every session's measurements for this.
    query = """SELECT session FROM events WHERE tag = 'session.opened.v1' AND starts_with(session, ?)
        ORDER BY seq DESC LIMIT ?"""
    try:
        home = kernelswarm_home()
        if not log_path(home).exists():
            return []
        table = asyncio.run(run_sql(home, query, params=(incomplete, LATEST), timeout=TIMEOUT_S))
    except KernelswarmError:
        return []
    return [row[0] for row in table.rows]


def question_names(incomplete: str) -> list[str]:
    """The library's questions whose name begins with ``incomplete``."""
    return [question.name for question in questions() if question.name.startswith(incomplete)]


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


def python_files(incomplete: str) -> list[str]:
    """Python files, and folders beside them, whose path begins with ``incomplete``.

    Nothing where there are only folders: then shells complete as they always do, which goes on into the folder.
    """
    folder, slash, stem = incomplete.rpartition("/")
    start = folder + slash
    try:
        paths = sorted(path for path in Path(start or ".").iterdir() if path.name.startswith(stem))
    except OSError:
        return []
    files = [f"{start}{path.name}" for path in paths if path.suffix == ".py"]
    folders = [f"{start}{path.name}/" for path in paths if path.is_dir() and path.name[0] not in "._"]
    return files and files + folders
