"""How an outside author reaches the sessions of this machine, or of a cluster."""

import getpass
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ...bus import Bus
from ...bus.bulk import running
from ...schemas import InputError
from .client import OutsideAuthor

AGENT_VARIABLE = "KERNELSWARM_AGENT"
"""Environment variable that names an author, for people."""

MOST_NAME = 64


@asynccontextmanager
async def outside_author(home: Path, nats: str, agent: str) -> AsyncIterator[OutsideAuthor]:
    """An author at the sessions that run on ``home`` (or on the cluster at ``nats``).

    Raises:
        InputError: no session runs there, or the name is none.
        BusError: the bus cannot be reached.
    """
    url = nats or running(home)
    if not url:
        raise InputError(
            f"no search is running in {home}: `kernelswarm optimize PROBLEM --author outside` in another terminal "
            "opens tasks; --nats URL names a cluster, KERNELSWARM_HOME another home"
        )
    name = agent_name(agent)
    async with await Bus.connect(url, name=f"kernelswarm author {name}") as bus:
        yield OutsideAuthor(bus, home, name)


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
