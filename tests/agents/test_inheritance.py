"""What a fork begins with, and what a planner does with seeds: given events, then decisions. No bus."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

import given
from kernelswarm.agents.planner.inheriting import begun
from kernelswarm.agents.planner.machine import decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.graph.inheritance import LoggedEvent, comparable, inherit, inherited
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    Envelope,
    Event,
    InputError,
    Intent,
    KernelswarmError,
    MemoryOperator,
    NodePlanned,
    Origin,
    SeedKernel,
    SessionClosed,
    SessionOpened,
    Verdict,
)
from kernelswarm.sessions.fork import fork_point
from kernelswarm.sessions.recorded_session import RecordedSession


def planned(parent: str = "", intent: Intent = Intent.draft) -> NodePlanned:
    return NodePlanned(parent=parent, intent=intent, memory=MemoryOperator.inherit)


def history(session: str, *events: tuple[Event, str]) -> list[LoggedEvent]:
    return [
        (given.envelope_of(event, node=node, session=session, cause=str(index)), event)
        for index, (event, node) in enumerate(events)
    ]


def a_session(session: str = "p-aaaaa", **opened: object) -> list[LoggedEvent]:
    """n001 1.5x, its child n002 2x, n003 wrong; n004 is under way."""
    wrong = given.diagnosed(verdict=Verdict.wrong_numbers)
    return history(
        session,
        (given.opened(**opened), ""),
        *((planned(), "n001"), (given.candidate("one"), "n001"), (given.diagnosed(1.5), "n001")),
        *((planned("n001", Intent.improve), "n002"), (given.candidate("two"), "n002"), (given.diagnosed(2.0), "n002")),
        *((planned(), "n003"), (given.candidate("three"), "n003"), (planned(), "n004"), (wrong, "n003")),
    )


def forked(parent: Sequence[LoggedEvent], origin: Origin, **opened: object) -> SearchGraph:
    graph = SearchGraph("c-bbbbb", parent)
    event = given.opened(origin=origin, **opened)
    graph.apply(given.envelope_of(event, session="c-bbbbb"), event)
    return graph


def first_plans(graph: SearchGraph) -> tuple[PlannerState, list[tuple[str, NodePlanned]]]:
    state = begun(graph)
    assert graph.opened is not None
    decisions = decide(state, graph.opened)
    return state, [(d.node, d.event) for d in decisions if isinstance(d.event, NodePlanned)]


def test_what_is_under_way_is_not_inherited_and_no_name_is_given_twice() -> None:
    graph = forked(a_session(), Origin(session="p-aaaaa", node="n002"))
    assert list(graph.inheritance.nodes) == ["n001", "n002", "n003"] and graph.own() == []
    _, plans = first_plans(graph)
    assert [(node, plan.parent, plan.intent) for node, plan in plans] == [("n005", "n002", Intent.remeasure)]


def test_a_fork_at_a_node_may_go_back_to_its_ancestors_but_not_to_others() -> None:
    state, _ = first_plans(forked(a_session(), Origin(session="p-aaaaa", node="n002")))
    assert {name for name, node in state.nodes.items() if node.inherited} == {"n001"}
    assert [node.name for node in state.own()] == ["n005"]


def test_as_of_an_event_the_fittest_are_measured_again() -> None:
    parent = a_session()
    graph = forked(parent, Origin(session="p-aaaaa", node="", at=parent[-1][0].id))
    _, plans = first_plans(graph)
    assert [plan.parent for _, plan in plans] == ["n002", "n001"]


def test_nothing_new_is_planned_before_the_start_is_measured() -> None:
    state, plans = first_plans(forked(a_session(), Origin(session="p-aaaaa", node="n002"), budget=12))
    assert len(plans) == 1
    more = decide(state, given.diagnosed(1.9), "n005")
    assert more and all(isinstance(d.event, NodePlanned) for d in more)
    assert {d.event.intent for d in more if isinstance(d.event, NodePlanned)} == {Intent.improve}


def test_inherited_nodes_are_neither_counted_nor_confirmed_nor_the_best() -> None:
    state, _ = first_plans(forked(a_session(), Origin(session="p-aaaaa", node="n002"), budget=1))
    (confirmation,) = decide(state, given.diagnosed(1.2), "n005")
    assert confirmation.node == "n005"
    (closing,) = decide(state, given.diagnosed(1.2, confirmation=True), "n005")
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.candidates, closing.event.best) == (1, "n005")


def test_other_hardware_inherits_kernels_without_their_numbers() -> None:
    elsewhere = given.hardware(cores=64)
    graph = forked(a_session(), Origin(session="p-aaaaa", node="n002"), hardware=elsewhere)
    assert all(node.elsewhere and node.fitness == 0 for node in graph.inheritance.nodes.values())
    assert graph.inheritance.starts == ("n002",)
    assert not begun(graph).nodes


def test_the_same_machine_measured_again_is_the_same_machine() -> None:
    opened, repeated = (
        given.opened(),
        given.opened(hardware=given.hardware(copy_gbps=9.7), pool=given.pool(name="again")),
    )
    assert comparable(opened, repeated)
    assert not comparable(opened, given.opened(pool=given.pool(baselines=("eager",))))
    assert not comparable(None, opened)


async def test_generations_are_read_from_the_first_on_and_cut_where_each_was_forked() -> None:
    first = a_session()
    cut = next(envelope.id for envelope, event in first if envelope.node == "n002" and event == given.diagnosed(2.0))
    second = history(
        "c-bbbbb",
        (given.opened(origin=Origin(session="p-aaaaa", node="n002", at=cut)), ""),
        *((planned("n002", Intent.remeasure), "n005"), (given.candidate("two"), "n005")),
        *((given.diagnosed(1.8), "n005"), (given.diagnosed(1.7, confirmation=True), "n005")),
    )
    there = {"p-aaaaa": first, "c-bbbbb": second}

    async def read(session: str) -> list[Envelope]:
        return [envelope for envelope, _ in there[session]] * 2  # a stream may hold copies

    grandchild = given.opened(origin=Origin(session="c-bbbbb", node="n005"))
    before = await inherited(grandchild, read)
    assert [envelope.session for envelope, _ in before] == ["p-aaaaa"] * 7 + ["c-bbbbb"] * 4
    nodes = inherit(grandchild, before).nodes
    assert list(nodes) == ["n001", "n002", "n005"]
    assert nodes["n005"].confirmation_diagnosis is None, "that came after the fork"
    with pytest.raises(KernelswarmError, match="not in this log"):
        await inherited(given.opened(origin=Origin(session="p-aaaaa", node="", at="0" * 32)), read)


def recorded() -> RecordedSession:
    return RecordedSession("p-aaaaa", [(seq, envelope) for seq, (envelope, _) in enumerate(a_session(), 1)])


@pytest.mark.parametrize(
    ("node", "at", "message"),
    [
        ("", "", "name what to go on from"),
        ("n009", "", "no node 'n009'; there is n001 to n004"),
        ("n02", "", "no node 'n02'; did you mean 'n002'"),
        ("n004", "", "n004 of p-aaaaa was not diagnosed yet: fork from one that was (n00"),
        ("n003", "5", "n003' "),
        ("", "xyz", "no event 'xyz'"),
        ("", "2", "no correct candidate by event"),
    ],
)
def test_a_place_that_is_none_is_refused_with_a_way_out(node: str, at: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        fork_point(recorded(), node, at)
    assert message.strip() in str(refused.value)


@pytest.mark.parametrize(
    ("closed", "message"), [(False, "`kernelswarm resume p-aaaaa`"), (True, "`kernelswarm optimize`")]
)
def test_where_no_node_was_diagnosed_waiting_is_named_only_where_it_helps(closed: bool, message: str) -> None:
    events = [(given.opened(), ""), (planned(), "n001"), (given.candidate("one"), "n001")]
    if closed:
        events.append((SessionClosed(reason="stopped"), ""))
    parent = RecordedSession(
        "p-aaaaa", [(seq, envelope) for seq, (envelope, _) in enumerate(history("p-aaaaa", *events), 1)]
    )
    with pytest.raises(InputError) as refused:
        fork_point(parent, "n001")
    assert message in str(refused.value)


def test_a_place_is_named_by_node_by_id_or_by_its_place_in_the_log() -> None:
    parent = recorded()
    diagnosis = parent.events[6][1].id
    assert fork_point(parent, "n002").origin == Origin(session="p-aaaaa", node="n002", at=diagnosis)
    assert fork_point(parent, "", diagnosis[:9]).origin == Origin(session="p-aaaaa", node="", at=diagnosis)
    assert fork_point(parent, "n001", "7").origin == Origin(session="p-aaaaa", node="n001", at=diagnosis)


SEEDS = tuple(
    SeedKernel(
        session="old-ccccc", node=f"n{i}", problem="p", source=f"s{i}", sha256=str(i), language="cpp", backend="x"
    )
    for i in range(3)
)


def seeded(**options: float) -> SessionOpened:
    return given.opened(budget=30, seed_kernels=SEEDS, policy_options={"drafts": 4, **options})


def expansions(opened: SessionOpened) -> list[NodePlanned]:
    """Plans after the first four, every node being diagnosed alike."""
    state, queue, plans = PlannerState(), [("", opened)], []
    while queue:
        node, event = queue.pop(0)
        for decision in decide(state, event, node):
            if isinstance(decision.event, NodePlanned):
                plans.append(decision.event)
                queue.append((decision.node, given.diagnosed(1.0 + len(plans) / 100)))
    return plans[4:]


def test_seeds_come_first_and_take_the_place_of_drafts() -> None:
    plans = [d.event for d in decide(PlannerState(), seeded()) if isinstance(d.event, NodePlanned)]
    assert [(plan.intent, plan.seed) for plan in plans] == [
        *((Intent.remeasure, 1), (Intent.remeasure, 2), (Intent.remeasure, 3), (Intent.draft, 0)),
    ]


@settings(max_examples=20, deadline=None)
@for_all(share=st.sampled_from([0.0, 0.2, 1.0]), seed=st.integers(0, 1000))
def test_as_many_expansions_as_asked_for_take_a_seed(share: float, seed: int) -> None:
    opened = msgspec.structs.replace(seeded(inject=share), seed=seed)
    plans = expansions(opened)
    taken = [
        plan for plan in plans if plan.second in ("n001", "n002", "n003") or plan.parent in ("n001", "n002", "n003")
    ]
    assert plans == expansions(opened), "the same log, the same decisions"
    assert all(plan.second != plan.parent for plan in plans)
    if share == 1.0:
        assert len(taken) == len(plans)
    if share == 0.0:
        assert not any(plan.second for plan in plans)
