"""How an outside author reaches the sessions of this machine, or of a cluster."""

import asyncio
import getpass
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ...bus import Bus, running
from ...schemas import InputError
from .answers import STARTING
from .client import OutsideAuthor
from .recorded import RecordedSessions

AGENT_VARIABLE = "KERNELSWARM_AGENT"
"""Environment variable that names an author, for people."""

MOST_NAME = 64

LOOK_S = 0.5
"""How often a home is asked whether a search runs there by now."""


Reader = OutsideAuthor | RecordedSessions
"""Who can be asked about a session."""


class NoSearchRuns(InputError):
    """No search runs on a home: there is nothing to claim there, and nothing to list."""


@asynccontextmanager
async def outside_author(
    home: Path,
    nats: str,
    agent: str,
    *,
    about: str = "",
    wait_s: float = 0.0,
    waiting: Callable[[], None] = lambda: None,
) -> AsyncIterator[OutsideAuthor]:
    """An author at the sessions that run on ``home`` (or on the cluster at ``nats``).

    A search that does not run on ``home`` yet is waited for, up to ``wait_s`` seconds; ``waiting`` is called once then.
    ``about`` names a session, a task or a lease that it is about: if the log knows the session, it says why not.

    Raises:
        NoSearchRuns: no session runs there.
        InputError: the name is none.
        BusError: the bus cannot be reached.
    """
    session = about.partition("/")[0]
    if wait_s and session and not nats and running(home) is None and await RecordedSessions(home).is_closed(session):
        wait_s = 0.0  # a search that starts meanwhile will be another one
    url = nats or await _running(home, wait_s, waiting)
    if not url:
        obstacle = await RecordedSessions(home).obstacle(session) if session else ""
        raise NoSearchRuns(
            obstacle
            or f"no search is running in {home}: `kernelswarm optimize PROBLEM --author outside` in another terminal "
            f"opens tasks; --nats URL names a cluster, KERNELSWARM_HOME another home; {STARTING}"
        )
    name = agent_name(agent)
    async with await Bus.connect(url, name=f"kernelswarm author {name}") as bus:
        yield OutsideAuthor(bus, home, name)


@asynccontextmanager
async def session_reader(home: Path, nats: str) -> AsyncIterator[Reader]:
    """Who reads a session: of those that run, or where no search runs on ``home``, out of its log.

    Raises:
        BusError: the bus cannot be reached.
    """
    try:
        async with outside_author(home, nats, "") as author:
            yield author
    except NoSearchRuns:
        yield RecordedSessions(home)


async def _running(home: Path, wait_s: float, waiting: Callable[[], None]) -> str | None:
    """URL of the server on ``home``, as soon as there is one; None if there is none in time."""
    deadline, url = time.monotonic() + wait_s, running(home)
    if url is None and wait_s > 0:
        waiting()
    while url is None and (left := deadline - time.monotonic()) > 0:
        await asyncio.sleep(min(LOOK_S, left))
        url = running(home)
    return url


def agent_name(name: str) -> str:
    """The name of an author: as given, from ``KERNELSWARM_AGENT``, or the user's.

    Raises:
        InputError: it is too long, or not one line of text.
    """
    name = name or os.environ.get(AGENT_VARIABLE, "") or _user()
    if len(name) > MOST_NAME or not name.isprintable():
        raise InputError(f"agent {name[:MOST_NAME]!r}: give a name of one line and at most {MOST_NAME} characters")
    return name


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no entry
        return "somebody"
