"""The dispatcher: gives tasks of the session to outside authors under leases, and takes their files."""

import asyncio
from collections.abc import Sequence

from ..bus import Bus
from ..graph.tasks import HandIn, Permit, Ruling
from ..hardware.languages.assembly import language_in
from ..schemas import (
    OUTSIDE,
    CandidateProposed,
    CheckRequested,
    ClaimRequested,
    Event,
    StopRequested,
    TaskExpired,
    TaskRefused,
    TaskReleased,
    TaskSubmitted,
)
from .lease_timers import LeaseTimers
from .runtime import Agent, Answer, Work


class Dispatcher(Agent):
    """Says what the session's tasks (:class:`.SessionTasks`) rule on each request. It decides nothing itself."""

    role = "dispatcher"
    consumes: tuple[type[Event], ...] = (
        ClaimRequested,
        CheckRequested,
        TaskSubmitted,
        TaskReleased,
        TaskExpired,
        StopRequested,
    )

    def __init__(self, bus: Bus) -> None:
        self._timers = LeaseTimers(bus)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Answer one request, or what ends tasks."""
        self._timers.arm(work)
        rulings = work.graph.tasks.rulings.get(work.envelope.id, ())
        # A check that is permitted is the checker's to answer.
        answered = [ruling for ruling in rulings if ruling.outcome != Permit()]
        # A file that was handed in is parsed, and may be long.
        return [Answer(await asyncio.to_thread(_event, ruling, work), ruling.node) for ruling in answered]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """Say to whoever waits for an answer that there is none."""
        waits = isinstance(work.event, ClaimRequested | CheckRequested | TaskSubmitted)
        return [Answer(TaskRefused(reason=reason))] if waits else []

    async def close(self) -> None:
        """Forget the timers: leases go on, and another process times them."""
        await self._timers.close()


def _event(ruling: Ruling, work: Work) -> Event:
    outcome = ruling.outcome
    if isinstance(outcome, HandIn):
        return _candidate(outcome.submitted, ruling.node, work)
    assert isinstance(outcome, Event)
    return outcome


def _candidate(submitted: TaskSubmitted, node: str, work: Work) -> CandidateProposed:
    opened, plan = work.opened, work.graph.tasks.tasks[node].plan
    return CandidateProposed(
        source=submitted.source,
        sha256=submitted.sha256,
        language=language_in(submitted.source, opened.pool, opened.language),
        backend=OUTSIDE,
        rationale=submitted.rationale,
        parents=tuple(filter(None, (plan.parent, plan.second))),
    )
