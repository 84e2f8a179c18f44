"""Tasks of outside authors: what every request of an outside author comes to follows from the order of events alone."""

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest
from waiting import within

import given
from kernelswarm.agents.dispatcher import Dispatcher
from kernelswarm.agents.runtime import Work
from kernelswarm.bus import Bus
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.graph.tasks import CHECKS, HandIn, Permit
from kernelswarm.schemas import (
    IDLE,
    OUTSIDE,
    CandidateProposed,
    CheckRequested,
    ClaimRequested,
    Envelope,
    Event,
    Intent,
    Interval,
    MemoryOperator,
    NodePlanned,
    SessionClosed,
    StopRequested,
    SynthesisFailed,
    TaskClaimed,
    TaskExpired,
    TaskRefused,
    TaskReleased,
    TaskSubmitted,
    sha256,
)
from kernelswarm.sessions.timer import idle_limit

SESSION = "s-test1"
FIRST = f"{SESSION}/n001/1"


@dataclass
class Session:
    """Says events, and what was ruled on each."""

    graph: SearchGraph = field(default_factory=lambda: SearchGraph(SESSION))
    count: int = 0

    def say(self, event: Event, node: str = "", cause: str = "") -> Envelope:
        self.count += 1
        envelope = given.envelope_of(event, node=node, cause=cause, index=self.count, at_ns=self.count)
        self.graph.apply(envelope, event)
        return envelope

    def ruled(self, event: Event) -> object:
        """The outcome of a request: nothing, one thing, or several."""
        rulings = self.graph.tasks.rulings[self.say(event).id]
        outcomes = [ruling.outcome for ruling in rulings]
        return outcomes[0] if len(outcomes) == 1 else outcomes

    def plan(self, node: str, parent: str = "", **changes: object) -> None:
        intent = Intent.improve if parent else Intent.draft
        plan = NodePlanned(parent=parent, intent=intent, memory=MemoryOperator.inherit, synthesizer=OUTSIDE)
        self.say(msgspec.structs.replace(plan, **changes), node)

    def claim(self, task: str = "", agent: str = "alice") -> object:
        return self.ruled(ClaimRequested(agent=agent, minutes=30.0, task=task))

    def submit(self, lease: str, source: str = "def kernel(x): return x") -> object:
        return self.ruled(TaskSubmitted(lease=lease, source=source, sha256=sha256(source)))


@pytest.fixture
def session() -> Session:
    """Two drafts wait for outside authors."""
    session = Session()
    session.say(given.opened(synthesizer=OUTSIDE))
    session.plan("n001")
    session.plan("n002")
    return session


def lease_of(outcome: object) -> str:
    assert isinstance(outcome, TaskClaimed), outcome
    return outcome.lease


def reason_of(outcome: object) -> str:
    assert isinstance(outcome, TaskRefused), outcome
    return outcome.reason


def test_two_agents_that_race_get_different_tasks_and_the_third_is_told_why_none(session: Session) -> None:
    assert lease_of(session.claim(agent="alice")) == FIRST
    assert lease_of(session.claim(agent="bob")) == f"{SESSION}/n002/1"
    assert "no task of s-test1 is free (2 held)" in reason_of(session.claim(agent="carol"))
    assert "n001 is held by alice" in reason_of(session.claim("n001", agent="carol"))


def test_what_was_learned_goes_out_first(session: Session) -> None:
    session.plan("n003", parent="n001")
    session.plan("n004", parent="n003")
    assert [task.node for task in session.graph.tasks.free()] == ["n004", "n003", "n001", "n002"]


def test_plans_of_others_and_kernels_that_exist_are_no_tasks(session: Session) -> None:
    session.plan("n003", synthesizer="playbook")
    session.plan("n004", intent=Intent.remeasure)
    assert list(session.graph.tasks.tasks) == ["n001", "n002"]


def test_a_file_under_a_lease_becomes_the_nodes_candidate_once(session: Session) -> None:
    session.claim()
    assert isinstance(session.submit(FIRST), HandIn)
    assert session.graph.tasks.tasks["n001"].author == "alice"
    assert "the same file is s-test1/n001 already" in reason_of(session.submit(FIRST))
    assert "n001 is handed in" in reason_of(session.claim("n001"))


def test_a_copy_of_a_request_changes_nothing(session: Session) -> None:
    request = ClaimRequested(agent="alice", minutes=30.0)
    envelope = session.say(request)
    session.graph.apply(envelope, request)
    assert [lease.id for lease in session.graph.tasks.held()] == [FIRST]


def test_an_expired_lease_returns_the_task_and_a_late_file_still_finds_it(session: Session) -> None:
    session.claim()
    session.ruled(TaskExpired(lease=FIRST))
    assert session.graph.tasks.tasks["n001"].is_free
    assert isinstance(session.submit(FIRST), HandIn)
    assert session.graph.tasks.tasks["n001"].outcome == "handed in"


def test_a_late_file_takes_another_free_task_where_its_own_is_in_other_hands(session: Session) -> None:
    session.claim(agent="alice")
    session.ruled(TaskExpired(lease=FIRST))
    session.claim("n001", agent="bob")
    envelope = session.say(TaskSubmitted(lease=FIRST, source="late", sha256="1"))
    (ruling,) = session.graph.tasks.rulings[envelope.id]
    assert isinstance(ruling.outcome, HandIn) and ruling.node == "n002"
    assert session.graph.tasks.tasks["n002"].author == "alice"
    holder = session.graph.tasks.tasks["n001"].holder
    assert holder is not None and holder.agent == "bob"


def test_a_late_file_that_finds_no_free_task_is_kept_and_its_author_told_how_to_go_on(session: Session) -> None:
    session.claim("n001", agent="alice")
    session.ruled(TaskExpired(lease=FIRST))
    session.claim("n001", agent="bob")
    session.claim("n002", agent="bob")
    reason = reason_of(session.submit(FIRST))
    assert "lease s-test1/n001/1 expired, and no other task is free: claim one" in reason
    assert reason.endswith("The file is kept in the log")


def test_a_lease_that_was_renewed_does_not_expire_by_an_old_timer(session: Session) -> None:
    session.claim()
    renewed = session.ruled(ClaimRequested(agent="alice", minutes=60.0, lease=FIRST))
    assert isinstance(renewed, TaskClaimed) and (renewed.renewals, renewed.minutes) == (1, 60.0)
    session.ruled(TaskExpired(lease=FIRST, renewals=0))
    assert [lease.id for lease in session.graph.tasks.held()] == [FIRST]
    session.ruled(TaskExpired(lease=FIRST, renewals=1))
    assert not session.graph.tasks.held()


def test_checks_renew_a_lease_and_are_bounded(session: Session) -> None:
    session.claim()
    outcomes = [session.ruled(CheckRequested(source=f"{n}", lease=FIRST)) for n in range(CHECKS + 1)]
    assert all(isinstance(outcome, Permit) for outcome in outcomes[:-1])
    assert f"has had its {CHECKS} checks" in reason_of(outcomes[-1])
    assert session.graph.tasks.held()[0].renewals == CHECKS


def test_a_released_task_goes_to_others_and_can_be_released_once(session: Session) -> None:
    session.claim("n001")
    assert session.ruled(TaskReleased(lease=FIRST)) == []
    assert "was released: there is nothing to give back" in reason_of(session.ruled(TaskReleased(lease=FIRST)))
    assert lease_of(session.claim("n001", agent="bob")) == f"{SESSION}/n001/2"
    assert "was released" in reason_of(session.ruled(CheckRequested(source="", lease=FIRST)))


def test_a_session_that_is_about_to_end_withdraws_what_nobody_holds_and_waits_for_what_is_held(
    session: Session,
) -> None:
    session.claim("n001")
    withdrawn = session.ruled(StopRequested(reason="minutes"))
    assert isinstance(withdrawn, SynthesisFailed) and session.graph.tasks.tasks["n002"].outcome == "withdrawn"
    assert "about to end" in reason_of(session.claim())
    session.plan("n003")
    assert session.graph.tasks.tasks["n003"].outcome == "withdrawn"
    assert session.graph.tasks.withdrawn == ("n002", "n003")
    assert isinstance(session.ruled(TaskExpired(lease=FIRST)), SynthesisFailed)


def test_at_the_end_it_is_named_what_nobody_handed_in(session: Session) -> None:
    session.claim("n001")
    session.say(StopRequested(reason="interrupted"))
    assert session.graph.tasks.withdrawn == ()
    session.say(SessionClosed(reason="interrupted"))
    assert session.graph.tasks.withdrawn == ("n001", "n002")


@pytest.mark.parametrize("heeds_files", [True, False])
def test_a_file_whose_time_is_too_noisy_may_be_handed_in_again(heeds_files: bool) -> None:
    session = Session()
    session.say(given.opened(synthesizer=OUTSIDE, heeds_files=heeds_files))
    for node in ("n001", "n002", "n003"):
        session.plan(node)
        session.claim(node)
    assert isinstance(session.submit(FIRST), HandIn)
    second, third = (f"{SESSION}/{node}/1" for node in ("n002", "n003"))
    assert "the same file is s-test1/n001 already" in reason_of(session.submit(second))
    session.say(given.diagnosed(0.6, speedup=Interval(median=2.0, low=0.6, high=9.0)), "n001")
    assert "the same file is s-test1/n001 already" in reason_of(session.submit(FIRST)), "its lease is over"
    again = session.submit(second)
    if not heeds_files:
        assert "the same file is s-test1/n001 already" in reason_of(again)
        return
    assert isinstance(again, HandIn) and session.graph.tasks.tasks["n002"].outcome == "handed in"
    assert "the same file is s-test1/n002 already" in reason_of(session.submit(third))
    session.say(given.diagnosed(1.5), "n002")
    assert "the same file is s-test1/n002 already" in reason_of(session.submit(third))


def test_an_interrupted_session_is_closed_at_once_and_withdraws_nothing(session: Session) -> None:
    assert session.say(StopRequested(reason="interrupted")).id not in session.graph.tasks.rulings
    assert "about to end" in reason_of(session.claim())


def test_a_held_task_can_be_handed_in_after_the_session_was_asked_to_end(session: Session) -> None:
    session.claim("n001")
    session.ruled(StopRequested(reason="minutes"))
    assert isinstance(session.submit(FIRST), HandIn)


def test_a_closed_session_says_so(session: Session) -> None:
    session.claim()
    session.say(SessionClosed(reason="target"))
    assert session.graph.tasks.free() == []
    assert "s-test1 is closed" in reason_of(session.submit(FIRST))
    assert "s-test1 is closed" in reason_of(session.claim())


@pytest.mark.parametrize("lease", ["", "s-test1/n009/1", "other/n001/1"])
def test_a_lease_that_never_was_is_no_right(session: Session, lease: str) -> None:
    assert "there is no lease" in reason_of(session.submit(lease))


def test_an_answer_in_the_log_counts_where_this_version_would_have_ruled_otherwise(session: Session) -> None:
    request = session.say(ClaimRequested(agent="alice", minutes=30.0))
    session.say(TaskClaimed(lease=f"{SESSION}/n002/1", agent="alice", minutes=30.0), "n002", request.id)
    assert [lease.id for lease in session.graph.tasks.held()] == [f"{SESSION}/n002/1"]
    submitted = TaskSubmitted(lease=f"{SESSION}/n002/1", source="x", sha256=sha256("x"))
    handed_in = session.say(submitted)
    candidate = CandidateProposed(source="x", sha256=sha256("x"), language="cpp", backend=OUTSIDE)
    session.say(candidate, "n002", handed_in.id)
    assert session.graph.tasks.tasks["n002"].author == "alice" and session.graph.tasks.tasks["n001"].is_free


def test_a_session_waits_idly_once_all_that_was_held_is_given_back(session: Session) -> None:
    assert not session.graph.waits_for_outside, "nobody came yet: an author may be on the way"
    session.claim("n001")
    assert not session.graph.waits_for_outside
    session.say(TaskReleased(lease=FIRST))
    assert session.graph.waits_for_outside
    session.plan("n003", synthesizer="playbook")
    assert not session.graph.waits_for_outside, "somebody else is at work"
    session.say(given.diagnosed(1.5), "n003")
    assert session.graph.waits_for_outside
    session.say(StopRequested(reason=IDLE))
    assert not session.graph.waits_for_outside


async def test_a_session_that_waited_for_too_long_is_asked_to_confirm_what_it_has() -> None:
    class Waiting:
        """Idle from its second look on."""

        def __init__(self) -> None:
            self.looks = 0
            self.reasons: list[str] = []
            self.stopped = asyncio.Event()

        @property
        def idle_s(self) -> float:
            self.looks += 1
            return 0.0 if self.looks == 1 else 60.0

        async def stop(self, reason: str) -> None:
            self.reasons.append(reason)
            self.stopped.set()

    waiting = Waiting()
    with idle_limit(waiting, 0.01):
        await within(waiting.stopped.wait())
    assert (waiting.reasons, waiting.looks) == ([IDLE], 2)


async def test_a_lease_of_a_process_that_is_gone_expires_with_the_sessions_next_event(
    session: Session, bus: Bus
) -> None:
    session.claim()  # long ago, by the clock of its event
    envelope = session.say(TaskReleased(lease="s-test1/n002/1"))
    dispatcher = Dispatcher(bus)
    async with bus.tail(session=SESSION) as tail:
        await dispatcher.handle(Work(envelope, TaskReleased(lease="s-test1/n002/1"), session.graph, session.count))
        await dispatcher.handle(Work(envelope, TaskReleased(lease="s-test1/n002/1"), session.graph, session.count))
        _, expired = await within(anext(tail))
    await dispatcher.close()
    assert expired.event() == TaskExpired(lease=FIRST) and expired.node == "n001"
    assert len(await bus.history(SESSION)) == 1, "two timers for one lease say it once"
