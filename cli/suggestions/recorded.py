"""What the log has: sessions, and questions to it."""

import asyncio

from ...schemas import KernelswarmError
from ...sessions.home import kernelswarm_home
from ...store import log_path, questions, run_sql

LATEST = 50
"""Sessions that are offered."""

TIMEOUT_S = 1.0


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
