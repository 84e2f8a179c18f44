"""A session is asked to stop, and ends."""

from ..timing import Interval
from .base import Event

REFERENCE_DIED = "reference_died"
"""Why a session stops, and closes: the reference ends its process every time, so no candidate can be judged."""
FINISHED = "user"
"""Reason of the stop with which an outside author ends a session: what there is gets confirmed."""
IDLE = "idle"
"""Reason of the stop of a session that waited for outside authors for too long."""
DEADLINE = "deadline"
"""Reason of the stop at which all of a session's time is over."""


class StopRequested(Event, frozen=True, kw_only=True, tag="session.stop_requested.v1"):
    """Somebody or a timer wants the session to end: what is under way is finished, nothing new is planned.

    The planner says it where its aim is reached while outside authors have tasks: who holds none gets none."""

    reason: str
    """``minutes`` (nothing new is planned), ``deadline`` (it closes with what it has), ``interrupted``, ``user`` (an
    outside author says that nothing more comes), ``idle`` (it waits for outside authors, and none comes),
    ``reference_died`` (a worker found that no candidate can be judged), or the planner's own: ``target`` or
    ``floor``."""
    detail: str = ""
    """Of ``reference_died``: how it died; one sentence."""


class SessionClosed(Event, frozen=True, kw_only=True, tag="session.closed.v1"):
    """The planner ended the session."""

    reason: str
    """``budget``, ``target``, ``stall``, ``floor``, ``minutes``, ``interrupted``, ``exhausted``, ``user`` and ``idle``
    (as in :class:`StopRequested`), ``nothing_to_try``
    (not one candidate was made), ``reference_died`` (baselines or oracle cannot be had) or ``failed``."""
    best: str = ""
    """Node of the best correct candidate; empty if there is none."""
    win: bool = False
    """Whether the best candidate's confirmed interval lies above 1 against the session's baseline: by the judge, and in
    ordinary processes as well where that was measured and counts (not on an accelerator whose device time is the
    session's :attr:`SessionOpened.measure`)."""
    speedup: Interval | None = None
    """Of the best candidate against the session's baseline: in ordinary processes where that was measured and counts,
    else by the interleaved benchmark, from its confirmation run where there was one."""
    against: str = ""
    """Name of that baseline."""
    judged: Interval | None = None
    """By the interleaved benchmark, where :attr:`speedup` is that of ordinary processes."""
    judged_against: str = ""
    """Name of the baseline that :attr:`judged` is measured against."""
    call: Interval | None = None
    """On an accelerator, whatever counts: of the best candidate's call, where that was measured."""
    call_against: str = ""
    """Name of the baseline that :attr:`call` is measured against."""
    candidates: int = 0
    """Candidates judged. Older sessions: nodes planned."""
    correct: int = 0
    """Of them: verified and timed."""
    wins: int = 0
    """Of them: interval above 1."""
    detail: str = ""
    """One sentence for people."""

    @property
    def by_judge(self) -> Interval | None:
        """The best candidate's speedup by the interleaved benchmark, whatever counts."""
        return self.judged or self.speedup

    @property
    def by_judge_against(self) -> str:
        """Name of the baseline of :attr:`by_judge`."""
        return self.judged_against or self.against
