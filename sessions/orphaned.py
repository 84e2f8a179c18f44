"""A session that is out of minutes in a pool without workers: nobody is left to close it, so nobody waits for that."""

import asyncio
import time
from collections.abc import Callable, Sequence

from ..agents.registry import ROLES
from ..bus import Bus
from ..schemas import DEADLINE, KernelswarmError, WorkerPresence
from .worker_availability import EVERY_S, join_command, missing_roles

PATIENCE_S = 120.0
"""How long the workers of a session that is out of minutes may stay away: one that is restarted is back by then."""

AFTERWARDS = "distiller"
"""The role that a session does not need to be closed."""


class OrphanedSession(KernelswarmError):
    """A session is out of minutes and nobody serves it: it stays open, and can be resumed."""


def orphaned_session(session: str, why: str, pool: str, missing: Sequence[str], url: str) -> OrphanedSession:
    """The error, with what to do.

    Args:
        session: It stays open.
        why: Reason of the stop that it was asked for, as in StopRequested.
        pool: Hardware pool it waits in.
        missing: Roles that nobody serves there.
        url: Of the cluster.
    """
    state = "is out of minutes" if why in ("minutes", DEADLINE) else "was asked to end"
    who = "worker" if set(missing) == set(ROLES) else " and no ".join(role for role in missing if role != AFTERWARDS)
    return OrphanedSession(
        f"session {session} {state}, and pool {pool} has no {who} to bring it to its end. It stays open: "
        f"workers that join finish it ({join_command(pool, missing, url)}), "
        f"and kernelswarm resume {session} --nats {url} goes on with it here"
    )


async def left_alone(
    bus: Bus,
    pool: str,
    session: str,
    seen: Callable[[], int],
    *,
    patience_s: float = PATIENCE_S,
    every_s: float = EVERY_S,
) -> list[str]:
    """Wait until a session goes nowhere: the roles of its pool that nobody serves.

    That is so when, for ``patience_s`` seconds, a role that it needs was missing at every count, nobody was at work on
    it and ``seen`` (how far it was followed) stayed the same.

    Raises:
        BusError: the server is away.
    """
    since, before = time.monotonic(), seen()
    while True:
        await asyncio.sleep(every_s)
        missing = stuck_without(await bus.workers(), pool, session)
        if not missing or seen() != before:
            since, before = time.monotonic(), seen()
        elif time.monotonic() - since >= patience_s:
            return missing


def stuck_without(workers: Sequence[WorkerPresence], pool: str, session: str) -> list[str]:
    """Roles of ``pool`` that nobody serves, if the session may be stuck for want of them; else nothing."""
    missing = missing_roles(workers, pool)
    at_work = any(worker.pool == pool and worker.busy_with.partition("/")[0] == session for worker in workers)
    return [] if at_work or missing == [AFTERWARDS] else missing
