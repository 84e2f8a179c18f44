"""However concurrent work is ordered, doubled or broken off: only the order of the inputs decides."""

import hashlib
from collections.abc import Sequence
from random import Random

from hypothesis import given as for_all
from hypothesis import strategies as st

import given
from kernelswarm.agents.planner.agent import Planner
from kernelswarm.agents.planner.machine import Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.agents.runtime import Answer, Folds, Histories, Work
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    CandidateCompiled,
    CandidateProfiled,
    CandidateVerified,
    CompileReport,
    ConfirmationPlanned,
    Envelope,
    Event,
    NodePlanned,
    SessionClosed,
    Verdict,
    VerifyReport,
    event_tag,
)
from kernelswarm.sessions.replay import Replay, replay

SESSION = "s-test1"
LoggedEvent = tuple[Envelope, Event]


def sealed(event: Event, node: str, cause: str, agent: str, index: int = 0) -> LoggedEvent:
    envelope = given.envelope_of(event, node=node, cause=cause, index=index, session=SESSION)
    return type(envelope)(**{f: getattr(envelope, f) for f in envelope.__struct_fields__} | {"agent": agent}), event


class Ring:
    """Every role but the planner's and the analyst's decisions is play; whose step is next is drawn."""

    def __init__(self, budget: int, seed: int) -> None:
        self.events: list[LoggedEvent] = []
        self.due: list[LoggedEvent] = []
        self.replay = Replay(SESSION)
        self._say(sealed(given.opened(budget=budget, seed=seed), "", "", "user"))

    def step(self, choice: int) -> None:
        """One of the events that could come next comes."""
        self._say(self.due.pop(choice % len(self.due)))

    def _say(self, entry: LoggedEvent) -> None:
        envelope, event = entry
        self.events.append(entry)
        self.replay.feed(len(self.events), envelope, event)
        held = {due[0].id for due in self.due}
        for output in self.replay.unsaid:
            if output.id not in held and output.cause == envelope.id:
                index = sum(due[0].cause == envelope.id and type(due[1]) is type(output.event) for due in self.due)
                self.due.append(sealed(output.event, output.node, envelope.id, output.role, index))
        after = answer(envelope, event)
        if after is not None:
            self.due.append(sealed(after, envelope.node, envelope.id, "worker"))


def answer(envelope: Envelope, event: Event) -> Event | None:
    """What compiler, verifier and profiler say, as it follows from the node alone."""
    luck = int(hashlib.sha256(envelope.node.encode()).hexdigest(), 16)
    match event:
        case NodePlanned():
            return given.candidate(source=f"# {envelope.node}")
        case _ if event_tag(type(event)) == "candidate.proposed.v1":
            return CandidateCompiled(report=CompileReport(ok=True, language="cpp", compiler="test"))
        case CandidateCompiled():
            return CandidateVerified(report=VerifyReport(verdict=Verdict.correct, isolation="none"))
        case CandidateVerified() | ConfirmationPlanned():
            confirmed = isinstance(event, ConfirmationPlanned)
            return CandidateProfiled(report=given.profile(median_ms=0.5 + luck % 97 / 50), confirmation=confirmed)
    return None


@st.composite
def sessions(draw: st.DrawFn) -> list[LoggedEvent]:
    """A session whose nodes were worked on in some order, to its close or cut off somewhere."""
    ring = Ring(draw(st.integers(1, 6)), draw(st.integers(0, 99)))
    order = Random(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(0, 70))):
        if ring.due:
            ring.step(order.randrange(len(ring.due)))
    return ring.events


def decided(session: Sequence[LoggedEvent]) -> list[Decision]:
    state, decisions = PlannerState(), []
    for envelope, event in session:
        decisions += decide(state, event, envelope.node)
    return decisions


def in_stream(session: Sequence[LoggedEvent]) -> list[tuple[int, Envelope]]:
    return [(seq, envelope) for seq, (envelope, _) in enumerate(session, 1)]


class Stream:
    """What a bus would hand out as history."""

    def __init__(self, session: Sequence[LoggedEvent]) -> None:
        self._stored = in_stream(session)

    async def history(self, session: str, *, after: int = 0, until: int | None = None) -> list[tuple[int, Envelope]]:
        return [message for message in self._stored if after < message[0] <= (until or len(self._stored))]


@for_all(sessions())
def test_whatever_the_order_of_concurrent_work_a_replay_agrees(session: list[LoggedEvent]) -> None:
    report = replay(SESSION, in_stream(session))
    assert sum(report.compared.values()) == sum(e.agent in ("planner", "analyst", "distiller") for e, _ in session)


@for_all(sessions(), st.data())
def test_what_the_planner_does_not_answer_may_come_in_any_order(
    session: list[LoggedEvent], data: st.DataObject
) -> None:
    graph = SearchGraph(SESSION)
    for envelope, event in session:
        graph.apply(envelope, event)
    inputs = {id(event) for _, event in graph.decisive}
    others = data.draw(st.permutations([entry for entry in session if id(entry[1]) not in inputs]))
    mixed = [entry for entry in session if id(entry[1]) in inputs]
    for entry in others:
        mixed.insert(data.draw(st.integers(0, len(mixed))), entry)
    assert decided(mixed) == decided(session)


@for_all(sessions(), st.data())
async def test_copies_move_no_agent(session: list[LoggedEvent], data: st.DataObject) -> None:
    doubled = list(session)
    for _ in range(data.draw(st.integers(1, 5))):
        first = data.draw(st.integers(0, len(doubled) - 1))
        doubled.insert(data.draw(st.integers(first + 1, len(doubled))), doubled[first])
    assert replay(SESSION, in_stream(doubled)) == replay(SESSION, in_stream(session))
    graph = await Folds(Histories(Stream(doubled))).at(SESSION, len(doubled))  # type: ignore[arg-type]
    clean = await Folds(Histories(Stream(session))).at(SESSION, len(session))  # type: ignore[arg-type]
    assert (graph.decisive, graph.nodes, graph.closed) == (clean.decisive, clean.nodes, clean.closed)


@for_all(sessions(), st.data())
async def test_a_cut_and_a_fresh_start_decide_as_if_nothing_had_happened(
    session: list[LoggedEvent], data: st.DataObject
) -> None:
    state = PlannerState()
    folds, planner = Folds(Histories(Stream(session))), Planner()  # type: ignore[arg-type]
    for seq, (envelope, event) in enumerate(session, 1):
        expected = [Answer(d.event, d.node) for d in decide(state, event, envelope.node)]
        if not expected:
            continue
        if data.draw(st.booleans(), label=f"killed before {seq}"):
            folds, planner = Folds(Histories(Stream(session))), Planner()  # type: ignore[arg-type]
        for _ in range(data.draw(st.integers(0, 2), label=f"deliveries of {seq}")):
            graph = await folds.at(SESSION, seq)
            assert await planner.handle(Work(envelope=envelope, event=event, graph=graph, seq=seq)) == expected


def test_the_sessions_of_these_tests_come_to_their_close() -> None:
    ring = Ring(budget=4, seed=1)
    while ring.due:
        ring.step(0)
    assert any(isinstance(event, SessionClosed) for _, event in ring.events)
