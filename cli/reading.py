"""How commands ask the log: through a cluster's recorder, a running search's, or the file itself."""

import difflib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from ..bus import Bus


@asynccontextmanager
async def asked_bus(nats: str) -> AsyncIterator[Bus | None]:
    """The cluster at ``nats`` for questions; None without one: then the store finds out who has the log.

    Raises:
        BusError: the cluster cannot be reached.
    """
    if not nats:
        yield None
        return
    async with await Bus.connect(nats, name="kernelswarm query") as bus:
        yield bus


def nothing_in(home: Path) -> str:
    """What to say when no session was ever recorded in ``home``."""
    return f"no sessions in {home} yet: run `kernelswarm optimize PROBLEM`, or set KERNELSWARM_HOME to where they are"


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean …?`` for the most similar of ``names``, or nothing."""
    known = list(names)
    near = [one for one in known if name and one.startswith(name)] or difflib.get_close_matches(name, known, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
