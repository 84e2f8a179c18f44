"""Replay: recorded histories are said again, word for word; whatever was changed in them is found and shown."""

from collections import Counter
from collections.abc import Mapping, Sequence

import histories
import msgspec
import pytest

import given
from kernelswarm.agents.synthesizer.role_models import SUB_AGENTS
from kernelswarm.graph.inheritance import LoggedEvent, inherited
from kernelswarm.schemas import (
    FINISHED,
    OUTSIDE,
    Bottleneck,
    CandidateProfiled,
    Envelope,
    Event,
    KernelswarmError,
    NodeDiagnosed,
    NodePlanned,
    ReplayDivergence,
    RoleDecided,
    SessionClosed,
    SessionOpened,
    SkillDistilled,
    StopRequested,
    Verdict,
    encode,
    event_tag,
    seal,
)
from kernelswarm.sessions.replay import SAYS, Replay, ReplayReport, replay

CLOSED = "v1-budget"


def history(name: str = CLOSED) -> list[Envelope]:
    (events,) = histories.read(name).values()
    return events


def run(events: Sequence[Envelope], to: str = "", before: Sequence[LoggedEvent] = ()) -> ReplayReport:
    return replay(events[0].session, list(enumerate(events, 1)), to, before)


async def known_before(family: Mapping[str, Sequence[Envelope]], session: str) -> Sequence[LoggedEvent]:
    """What a fork inherits, out of its family's file."""

    async def read(name: str) -> Sequence[Envelope]:
        return family[name]

    opened = family[session][0].event()
    assert isinstance(opened, SessionOpened)
    return await inherited(opened, read)


def place(events: Sequence[Envelope], kind: type[Event], number: int = 0) -> int:
    return [index for index, envelope in enumerate(events) if isinstance(envelope.event(), kind)][number]


def changed(events: Sequence[Envelope], kind: type[Event], number: int = 0, **fields: object) -> list[Envelope]:
    """The history with one event's body changed, under the same id."""
    at = place(events, kind, number)
    event = msgspec.structs.replace(events[at].event(), **fields)  # type: ignore[type-var]
    forged = msgspec.structs.replace(events[at], body=msgspec.Raw(encode(event)))
    return [*events[:at], forged, *events[at + 1 :]]


def is_said(envelope: Envelope) -> bool:
    """Whether a fresh planner, analyst or distiller says it: sub-agents, timers and people are heard only."""
    event = envelope.event()
    of_author = isinstance(event, RoleDecided) and event.role in SUB_AGENTS
    of_others = isinstance(event, StopRequested) and envelope.agent != "planner"
    return type(event) in SAYS and not (of_author or of_others)


@pytest.mark.parametrize("name", histories.names())
async def test_a_recorded_history_is_said_again(name: str) -> None:
    family = histories.read(name)
    for session, events in family.items():
        report = run(events, before=await known_before(family, session))
        outputs = [envelope for envelope in events if is_said(envelope)]
        assert sum(report.compared.values()) == len(outputs) > 0
        assert report.events == len(events) and report.unknown == 0


@pytest.mark.parametrize("name", histories.names())
async def test_a_history_that_was_cut_off_anywhere_is_no_divergence(name: str) -> None:
    family = histories.read(name)
    for session, events in family.items():
        before = await known_before(family, session)
        # A model's requests are long: such a history is cut off here and there.
        for end in range(1, len(events) + 1, 1 + len(events) // 150):
            run(events[:end], before=before)


def test_what_happens_next_is_told() -> None:
    events = history()
    at = place(events, NodeDiagnosed)
    report = run(events[:at])
    assert report.status == "open" and any(line.startswith("analyst: n") for line in report.unsaid)
    assert run(events, to=events[at - 1].id).unsaid == report.unsaid
    with pytest.raises(KernelswarmError, match="no event nosuch"):
        run(events, to="nosuch")


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        (NodePlanned, {"parent": "n007"}, "parent is 'n007' in the log, '' from a fresh planner"),
        (NodePlanned, {"draw": 1}, "draw is 1 in the log"),
        (NodeDiagnosed, {"fitness": 99.0}, "fitness is 99.0 in the log"),
        (SessionClosed, {"best": "n001"}, "best is 'n001' in the log, 'n00"),
        (SkillDistilled, {"skill": None}, ""),
    ],
)
def test_a_planted_divergence_is_caught_with_both_sides(
    kind: type[Event], fields: dict[str, object], field: str
) -> None:
    events = history()
    if kind is SkillDistilled:
        skill = events[place(events, kind)].event().skill  # type: ignore[union-attr]
        fields, field = {"skill": msgspec.structs.replace(skill, title="mine")}, "skill.title is 'mine' in the log"
    forged = changed(events, kind, **fields)
    with pytest.raises(ReplayDivergence) as caught:
        run(forged)
    at = place(events, kind)
    divergence = caught.value
    assert field in str(divergence) and f"(seq {at + 1}, {events[at].tag}" in str(divergence)
    assert (divergence.event, divergence.seq) == (events[at].id, at + 1)
    assert (
        divergence.recorded == bytes(forged[at].body).decode()
        and divergence.replayed == encode(events[at].event()).decode()
    )


def test_another_fact_changes_what_follows_from_it() -> None:
    events = history()
    event = events[0].event()
    opened = msgspec.structs.replace(events[0], body=msgspec.Raw(encode(msgspec.structs.replace(event, seed=99))))  # type: ignore[type-var]
    with pytest.raises(ReplayDivergence, match=r"draw is"):
        run([opened, *events[1:]])


@pytest.mark.parametrize("kind", [NodePlanned, NodeDiagnosed])
def test_an_output_that_is_missing_in_the_middle_is_named(kind: type[Event]) -> None:
    events = history()
    at = place(events, kind)
    with pytest.raises(ReplayDivergence, match=f"the log lacks {events[at].tag} {events[at].id}") as caught:
        run([*events[:at], *events[at + 1 :]])
    assert caught.value.recorded is None and caught.value.replayed == encode(events[at].event()).decode()


def test_an_output_too_many_is_named() -> None:
    events = history()
    at = place(events, NodePlanned)
    envelope = events[at]
    more = seal(
        envelope.event(),  # type: ignore[arg-type]
        session=envelope.session,
        pool=envelope.pool,
        node="n099",
        cause=envelope.cause,
        agent="planner",
        worker="w",
        at_ns=envelope.at_ns,
        index=77,
    )
    with pytest.raises(ReplayDivergence, match=r"n099.*says node.planned.v1 instead") as caught:
        run([*events[:at], more, *events[at:]])
    assert caught.value.recorded == bytes(more.body).decode()


def test_a_copy_of_an_event_changes_nothing() -> None:
    events = history()
    copies = [copy for event in events for copy in (event, event)]
    assert run(copies).compared == run(events).compared


def test_a_step_that_was_given_up_is_an_effect_of_the_outside() -> None:
    events = history()
    at = place(events, NodeDiagnosed)
    diagnosis = NodeDiagnosed(
        verdict=Verdict.harness_error, fitness=0.0, bottleneck=Bottleneck.fault, summary="analyst gave up after 4 tries"
    )
    forged = msgspec.structs.replace(events[at], body=msgspec.Raw(encode(diagnosis)))
    assert run([*events[:at], forged]).given_up == 1


def test_a_tag_of_a_newer_version_is_fed_to_nobody() -> None:
    events = history()
    newer = msgspec.structs.replace(events[3], id="f" * 32, body=msgspec.Raw(b'{"tag":"node.dreamt.v9"}'))
    report = run([*events[:4], newer, *events[4:]])
    assert report.unknown == 1 and report.compared == run(events).compared


def test_replay_goes_on_step_by_step_and_shows_the_graph() -> None:
    events = history()
    running = Replay(events[0].session)
    seen: list[int] = []
    for seq, envelope in enumerate(events, 1):
        running.feed(seq, envelope, envelope.event())
        seen.append(len(running.graph.nodes))
    assert seen == sorted(seen) and seen[-1] == 8 and running.graph.closed is not None


def test_a_stop_of_the_planners_own_is_compared_and_one_from_outside_is_heard() -> None:
    running, said = Replay("s-test1"), list[Envelope]()

    def say(event: Event, node: str = "", cause: str = "", agent: str = "user", index: int = 0) -> None:
        who = {"session": "s-test1", "pool": "cpu", "agent": agent, "worker": "w"}
        said.append(seal(event, node=node, cause=cause, at_ns=1, index=index, **who))
        running.feed(len(said), said[-1], event)

    def say_what_follows() -> None:
        numbers = Counter[str]()
        for output in running.unsaid:
            say(output.event, output.node, output.cause, output.role, numbers[event_tag(type(output.event))])
            numbers[event_tag(type(output.event))] += 1

    say(given.opened(synthesizer=OUTSIDE, budget=2, target=1.5, awaits_hand_ins=True))
    say_what_follows()
    say(CandidateProfiled(report=given.profile(1.0, 2.0)), "n001")
    say_what_follows()
    say_what_follows()
    assert said[-1].event() == StopRequested(reason="target") and said[-1].agent == "planner"
    assert not running.unsaid and running.finish().compared["planner"] == 3
    say(StopRequested(reason=FINISHED))
    assert run(said).compared["planner"] == 3
    with pytest.raises(ReplayDivergence, match="reason is 'stall' in the log, 'target' from a fresh planner"):
        run(changed(said, StopRequested, reason="stall"))
