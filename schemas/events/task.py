"""Tasks for outside authors: offered, claimed under a lease, handed in, refused, given back, expired.

``task.claim_requested``, ``task.submitted`` and ``task.released`` come from outside; the dispatcher answers them. What
each comes to follows from the order of a session's events alone (:mod:`kernelswarm.graph.tasks`).
"""

from .base import Event

OUTSIDE = "outside"
"""Name of the synthesizer backend whose plans are tasks."""


class TaskOpened(Event, frozen=True, kw_only=True, tag="task.opened.v1"):
    """A planned node waits for an outside author; the envelope's ``node`` names it."""

    checks: int
    """Checks that one lease of it permits."""


class ClaimRequested(Event, frozen=True, kw_only=True, tag="task.claim_requested.v1"):
    """An outside author wants a task, or more time for one that it holds."""

    agent: str
    """Who asks, for people: ``claude-code``. Rights hang on the lease, not on this name."""
    minutes: float
    """How long the lease shall last."""
    task: str = ""
    """Node that is wanted; empty: the first free one."""
    lease: str = ""
    """Lease to be renewed instead; empty for a new one."""


class TaskClaimed(Event, frozen=True, kw_only=True, tag="task.claimed.v1"):
    """A lease was granted or renewed: until it ends nobody else gets the task."""

    lease: str
    """``SESSION/NODE/N``, the N-th lease of the task."""
    agent: str
    minutes: float
    """From the request on, until it expires."""
    renewals: int = 0
    """How often it was renewed so far, by claims and checks."""


class TaskRefused(Event, frozen=True, kw_only=True, tag="task.refused.v1"):
    """A request of an outside author cannot be met."""

    reason: str
    """One sentence for people, with the way out."""


class TaskReleased(Event, frozen=True, kw_only=True, tag="task.released.v1"):
    """An outside author gives a task back: others may claim it."""

    lease: str


class TaskExpired(Event, frozen=True, kw_only=True, tag="task.expired.v1"):
    """A timer found that a lease's time is over: others may claim the task."""

    lease: str
    renewals: int = 0
    """Of the lease when the timer began. It does not hold if the lease was renewed since."""


class TaskSubmitted(Event, frozen=True, kw_only=True, tag="task.submitted.v1"):
    """An outside author hands in a candidate. The file is in the log, whatever comes of it."""

    lease: str
    source: str
    """The whole candidate file."""
    sha256: str
    """Of the source."""
    rationale: str = ""
    """Why it should be faster, in the author's words."""
