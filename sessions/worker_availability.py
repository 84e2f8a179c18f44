"""Who is missing: roles of a pool that nobody serves just now, and the command that would change it."""

import asyncio
from collections.abc import Callable, Iterable

from ..agents.registry import ROLES
from ..bus import Bus
from ..schemas import KernelswarmError, WorkerPresence

EVERY_S = 3.0
"""How often the pool's workers are counted."""

ABSENCES = 2
"""Counts in a row that miss a role before that is said: a worker that is starting, or busy answering, is not away."""


def missing_roles(workers: Iterable[WorkerPresence], pool: str) -> list[str]:
    """Roles of the ring that none of ``workers`` serves in ``pool``, in the ring's order."""
    served = {worker.role for worker in workers if worker.pool == pool}
    return [role for role in ROLES if role not in served]


async def count_of(role: str, bus: Bus, pool: str) -> int:
    """How many workers of ``role`` serve ``pool`` just now; takes half a second.

    Raises:
        BusError: the server is away.
    """
    return sum(worker.role == role and worker.pool == pool for worker in await bus.workers())


def join_command(pool: str, roles: Iterable[str], url: str) -> str:
    """The command that joins workers of ``roles`` to ``pool``."""
    role_names = list(roles)
    chosen = "" if set(role_names) == set(ROLES) else f" --roles {','.join(role_names)}"
    return f"kernelswarm swarm --pool {pool}{chosen} --nats {url}"


def waiting_for(pool: str, missing: Iterable[str], url: str) -> str:
    """What to tell somebody whose session waits; empty if nobody is missing."""
    roles = list(missing)
    if not roles:
        return ""
    who = "workers" if set(roles) == set(ROLES) else f"a {' and a '.join(roles)}"
    return f"waiting for {who} in pool {pool}; to join: {join_command(pool, roles, url)}"


async def watch_availability(
    bus: Bus, pool: str, on_notice: Callable[[str], None], *, every_s: float = EVERY_S
) -> None:
    """Tell which roles of ``pool`` go unserved, and with an empty text that all are served again; until cancelled."""
    last, absences = "", 0
    while True:
        try:
            missing = missing_roles(await bus.workers(), pool)
        except KernelswarmError:
            return  # the bus is lost: whoever follows the session says so
        absences = absences + 1 if missing else 0
        now = waiting_for(pool, missing, bus.url) if absences >= ABSENCES else ("" if not missing else last)
        if now != last:
            on_notice(now)
            last = now
        await asyncio.sleep(every_s)
