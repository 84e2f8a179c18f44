"""Tasks of outside authors: who holds which, and what every request comes to.

A pure fold. Requests are ruled in the order of the stream, by what came before them and nothing else: two authors that
want one task, whoever serves them, hear the same. Time enters as :class:`TaskExpired`. An answer that is in the log
counts, also where this version would have ruled otherwise.
"""

from dataclasses import dataclass, field

from ..schemas import (
    OUTSIDE,
    CandidateProposed,
    CheckRequested,
    ClaimRequested,
    Envelope,
    Event,
    Intent,
    NodeDiagnosed,
    NodePlanned,
    SessionClosed,
    SessionOpened,
    StopRequested,
    SynthesisFailed,
    TaskClaimed,
    TaskExpired,
    TaskRefused,
    TaskReleased,
    TaskSubmitted,
)

CHECKS = 12
"""Checks that one lease permits."""

MINUTES = 30.0
"""How long a lease lasts, by default."""

MOST_MINUTES = 240.0
"""How long it lasts at most, unless it is renewed."""

INTERRUPTED = "interrupted"
"""Reason of a stop that closes the session at once: then nobody waits for its tasks."""

ABOUT_TASKS = frozenset(
    (
        SessionOpened,
        NodePlanned,
        CandidateProposed,
        NodeDiagnosed,
        ClaimRequested,
        CheckRequested,
        TaskSubmitted,
        TaskReleased,
        TaskExpired,
        TaskClaimed,
        TaskRefused,
        StopRequested,
        SessionClosed,
    )
)
"""What is folded."""


@dataclass
class Lease:
    """A task in the hands of an outside author."""

    id: str
    node: str
    agent: str
    minutes: float
    request: str
    """Id of the request that it was granted to: what its expiry answers."""
    since_ns: int
    """When it was granted or renewed last, nanoseconds since the epoch."""
    renewals: int = 0
    checks: int = 0
    end: str = ""
    """Why it is over, as a clause; empty while it is held."""

    @property
    def expires_ns(self) -> int:
        """When its time is over, unless it is renewed."""
        return self.since_ns + int(self.minutes * 60e9)


@dataclass
class Task:
    """A planned node that waits for an outside author, or did."""

    node: str
    plan: NodePlanned
    leases: list[Lease] = field(default_factory=list)
    outcome: str = ""
    """``handed in`` or ``withdrawn``; empty while it is open."""
    author: str = ""
    """Who handed it in; empty if nobody did."""

    @property
    def holder(self) -> Lease | None:
        """The lease that is held just now."""
        return next((lease for lease in self.leases if not lease.end), None)

    @property
    def is_free(self) -> bool:
        """Whether it can be claimed."""
        return not self.outcome and self.holder is None


@dataclass(frozen=True)
class HandIn:
    """A file that becomes the candidate of a node."""

    submitted: TaskSubmitted


@dataclass(frozen=True)
class Permit:
    """A check that may be made."""


@dataclass(frozen=True)
class Ruling:
    """What follows from one event, and for which node."""

    outcome: Event | HandIn | Permit
    node: str = ""


class SessionTasks:
    """The tasks of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.tasks: dict[str, Task] = {}
        """By node, in order of planning."""
        self.rulings: dict[str, list[Ruling]] = {}
        """By the id of the event that they answer."""
        self._leases: dict[str, Lease] = {}
        self._sources: dict[str, str] = {}
        """Nodes of the session by the sha256 of their candidate."""
        self._noisy: set[str] = set()
        """Nodes whose time is too noisy to tell: their file may be handed in again, to be timed again."""
        self._heeds_files = False
        self._submitted: dict[str, TaskSubmitted] = {}
        """By the id of the event."""
        self._stopping = False
        self._closed = False

    def apply(self, envelope: Envelope, event: Event) -> None:
        """Fold one event in. A copy of a request that was ruled changes nothing."""
        if envelope.id in self.rulings:
            return
        match event:
            case SessionOpened():
                self._heeds_files = event.heeds_files
            case NodeDiagnosed():
                self._diagnosed(envelope.node, event)
            case NodePlanned():
                if event.synthesizer == OUTSIDE and event.intent is not Intent.remeasure:
                    self.tasks[envelope.node] = Task(envelope.node, event)
                    if self._stopping:  # planned before the planner had heard of it: the synthesizer says so
                        self._withdraw([self.tasks[envelope.node]])
            case CandidateProposed():
                self._proposed(envelope, event)
            case TaskClaimed():
                self._was_claimed(envelope, event)
            case TaskRefused():
                self._was_refused(envelope)
            case SessionClosed():
                self._closed = True
            case StopRequested():
                self._stopping = True
                if event.reason != INTERRUPTED:
                    self._rule(envelope, *self._withdraw(self.free()))
            case ClaimRequested():
                self._rule(envelope, self._renewed(event, envelope) if event.lease else self._claimed(event, envelope))
            case CheckRequested() if event.lease:
                self._rule(envelope, self._checked(event, envelope))
            case TaskSubmitted():
                self._submitted[envelope.id] = event
                self._rule(envelope, self._handed_in(event))
            case TaskReleased():
                self._rule(envelope, *self._returned(event.lease, "was released"))
            case TaskExpired():
                self._rule(envelope, *self._expired(event))

    def free(self) -> list[Task]:
        """Tasks that can be claimed: first those with a parent, the newest of them first, which know most of what was
        learned; then drafts."""
        free = [] if self._closed else [task for task in self.tasks.values() if task.is_free]
        return [task for task in reversed(free) if task.plan.parent] + [task for task in free if not task.plan.parent]

    @property
    def had_authors(self) -> bool:
        """Whether a lease was ever granted."""
        return bool(self._leases)

    def held(self) -> list[Lease]:
        """Leases that are held, in order of their tasks."""
        return [lease for task in self.tasks.values() if (lease := task.holder) is not None]

    def lease(self, name: str) -> Lease | None:
        """The lease ``SESSION/NODE/N``, held or over."""
        return self._leases.get(name)

    def permits(self, request: str) -> bool:
        """Whether the check with the id ``request`` may be made."""
        return any(isinstance(ruling.outcome, Permit) for ruling in self.rulings.get(request, ()))

    @property
    def withdrawn(self) -> tuple[str, ...]:
        """Nodes that nobody handed in, in order of planning: the session has ended, or is about to."""
        tasks = self.tasks.values()
        return tuple(task.node for task in tasks if task.outcome == "withdrawn" or (self._closed and not task.outcome))

    def is_withdrawn(self, node: str) -> bool:
        """Whether ``node`` is a task that nobody is to work on any more."""
        return node in self.tasks and self.tasks[node].outcome == "withdrawn"

    def _diagnosed(self, node: str, event: NodeDiagnosed) -> None:
        if self._heeds_files and event.speedup is not None and event.speedup.is_noise:
            self._noisy.add(node)
        else:
            self._noisy.discard(node)

    def _proposed(self, envelope: Envelope, event: CandidateProposed) -> None:
        self._sources.setdefault(event.sha256, envelope.node)
        task, submitted = self.tasks.get(envelope.node), self._submitted.get(envelope.cause)
        if task is None or task.outcome:
            return
        task.outcome = "handed in"
        lease = self._leases.get(submitted.lease) if submitted else task.holder
        if lease is not None:
            task.author, lease.end = lease.agent, lease.end or "was handed in"

    def _was_claimed(self, envelope: Envelope, event: TaskClaimed) -> None:
        if event.lease not in self._leases and envelope.node in self.tasks:
            self._was_refused(envelope)
            lease = Lease(event.lease, envelope.node, event.agent, event.minutes, envelope.cause, envelope.at_ns)
            self._keep(lease)

    def _was_refused(self, envelope: Envelope) -> None:
        for lease in self.held():
            if lease.request == envelope.cause and not lease.renewals:
                lease.end = "was never granted"

    def _keep(self, lease: Lease) -> None:
        self.tasks[lease.node].leases.append(lease)
        self._leases[lease.id] = lease

    def _rule(self, envelope: Envelope, *rulings: Ruling) -> None:
        self.rulings[envelope.id] = list(rulings)

    def _claimed(self, event: ClaimRequested, envelope: Envelope) -> Ruling:
        if reason := self._obstacle(event.task):
            return Ruling(TaskRefused(reason=reason))
        task = self.tasks[event.task] if event.task else self.free()[0]
        lease = Lease(
            id=f"{self.session}/{task.node}/{len(task.leases) + 1}",
            node=task.node,
            agent=event.agent,
            minutes=min(event.minutes, MOST_MINUTES),
            request=envelope.id,
            since_ns=envelope.at_ns,
        )
        self._keep(lease)
        return _granted(lease)

    def _obstacle(self, node: str) -> str:
        """Why the task ``node`` (empty: any) cannot be claimed; empty if it can."""
        if self._closed or self._stopping:
            return f"session {self.session} {'is closed' if self._closed else 'is about to end'}: it gives no tasks"
        if not node:
            held = len(self.held())
            return "" if self.free() else f"no task of {self.session} is free ({held} held): claim again, with --wait"
        task = self.tasks.get(node)
        if task is None:
            return f"{self.session} has no task {node}: `kernelswarm tasks list` shows what there is"
        if task.outcome:
            return f"{self.session}/{node} is {task.outcome}: claim another task of {self.session}"
        holder = task.holder
        return f"{self.session}/{node} is held by {holder.agent or 'somebody'}: claim another task" if holder else ""

    def _renewed(self, event: ClaimRequested, envelope: Envelope) -> Ruling:
        lease = self._leases.get(event.lease)
        if lease is None or lease.end or self._closed:
            return Ruling(TaskRefused(reason=f"{self._over(event.lease)}: claim a task again"))
        lease.minutes = min(event.minutes, MOST_MINUTES)
        self._renew(lease, envelope)
        return _granted(lease)

    def _checked(self, event: CheckRequested, envelope: Envelope) -> Ruling:
        lease = self._leases.get(event.lease)
        if lease is None or lease.end or self._closed:
            return Ruling(TaskRefused(reason=f"{self._over(event.lease)}: claim a task, then check under its lease"))
        if lease.checks >= CHECKS:
            return Ruling(TaskRefused(reason=f"lease {lease.id} has had its {CHECKS} checks: hand the file in"))
        lease.checks += 1
        self._renew(lease, envelope)
        return Ruling(Permit(), lease.node)

    def _renew(self, lease: Lease, envelope: Envelope) -> None:
        lease.since_ns, lease.request = envelope.at_ns, envelope.id
        lease.renewals += 1

    def _handed_in(self, event: TaskSubmitted) -> Ruling:
        lease = self._leases.get(event.lease)
        if self._closed:
            return self._kept(f"session {self.session} is closed: nothing is judged in it any more")
        node = self._sources.get(event.sha256)
        # Timed again under a lease that is held alone: a late file is not to take another task by accident.
        is_late = lease is None or bool(lease.end)
        if node is not None and (node not in self._noisy or is_late):
            return self._kept(f"the same file is {self.session}/{node} already")
        if lease is None:
            return self._kept(f"there is no lease {event.lease}: claim a task, then hand in under its lease")
        task = self._place(lease)
        if task is None:
            return self._kept(f"{self._over(lease.id)}, and no other task is free: claim one, then hand it in again")
        lease.end = lease.end or "was handed in"
        task.author = lease.agent
        task.outcome = "handed in"
        self._sources[event.sha256] = task.node
        return Ruling(HandIn(event), task.node)

    def _place(self, lease: Lease) -> Task | None:
        """The task that a file under ``lease`` is for: its own while it is held or free, else the newest free one."""
        own = self.tasks[lease.node]
        if not lease.end or own.is_free:
            return own
        return next(iter(self.free()), None)

    def _kept(self, reason: str) -> Ruling:
        return Ruling(TaskRefused(reason=f"not judged: {reason}. The file is kept in the log"))

    def _expired(self, event: TaskExpired) -> list[Ruling]:
        lease = self._leases.get(event.lease)
        if lease is None or lease.end or lease.renewals != event.renewals:
            return []
        return self._returned(event.lease, "expired")

    def _returned(self, name: str, end: str) -> list[Ruling]:
        lease = self._leases.get(name)
        if lease is None or lease.end:
            return [Ruling(TaskRefused(reason=f"{self._over(name)}: there is nothing to give back"))]
        lease.end = end
        return self._withdraw([self.tasks[lease.node]]) if self._stopping and not self._closed else []

    def _withdraw(self, tasks: list[Task]) -> list[Ruling]:
        """Nobody will write these any more: the session is about to end."""
        for task in tasks:
            task.outcome = "withdrawn"
        return [Ruling(withdrawn(), task.node) for task in tasks]

    def _over(self, name: str) -> str:
        """That a lease does not hold, as a clause."""
        lease = self._leases.get(name)
        if lease is None:
            return f"there is no lease {name}"
        return f"lease {name} {lease.end}" if lease.end else f"session {self.session} is closed"


def withdrawn() -> SynthesisFailed:
    """What becomes of a plan that nobody works on when its session ends."""
    return SynthesisFailed(backend=OUTSIDE, reason="nobody handed in a file before the session ended")


def _granted(lease: Lease) -> Ruling:
    claimed = TaskClaimed(lease=lease.id, agent=lease.agent, minutes=lease.minutes, renewals=lease.renewals)
    return Ruling(claimed, lease.node)
