"""Who is there: what a worker says of itself while it lives. Never stored, nothing is decided by it."""

from .base import Schema


class WorkerPresence(Schema, frozen=True, kw_only=True):
    """One worker of one role, now."""

    worker: str
    """``host.pid.role.n``, as in the envelope."""

    role: str
    """``compiler``, ``verifier``, …"""

    pool: str
    """Pool that it works for."""

    host: str
    """Name of its machine."""

    pid: int
    """Its process."""

    busy: bool = False
    """Whether it is at work on an event."""

    at_ns: int = 0
    """Its wall clock when it said so, nanoseconds since the epoch."""
