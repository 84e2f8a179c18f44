"""Who is there: what a worker says of itself while it lives. Never stored.

One thing is decided by it when a session is opened, and said in its first event: how many nodes are under way at once.
"""

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

    device: str = ""
    """What it runs candidates on: the processor's or accelerator's model."""

    since_ns: int = 0
    """When it came, by its wall clock, nanoseconds since the epoch; 0 if it does not say."""

    busy: bool = False
    """Whether it is at work on an event."""

    busy_with: str = ""
    """What it is at work on: ``session/node``, or the session alone; empty if it is idle."""

    done: int = 0
    """Events it has answered so far."""

    at_ns: int = 0
    """Its wall clock when it said so, nanoseconds since the epoch."""
