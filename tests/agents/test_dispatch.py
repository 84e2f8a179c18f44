"""Where different kernels win at different shapes, the planner asks for a file that takes each where it wins."""

import pytest

import given
from kernelswarm.agents.planner.machine import Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.agents.synthesizer.dispatched import dispatched
from kernelswarm.graph.nodes import NodeRecord
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.sources.native_source import parts_of
from kernelswarm.schemas import (
    CandidateProposed,
    ConfirmationPlanned,
    Intent,
    Interval,
    MemoryOperator,
    NodePlanned,
    SessionClosed,
    ShapeSpeedup,
    StopRequested,
    SynthesisFailed,
)


def shapes(main: float, decode: float) -> tuple[ShapeSpeedup, ...]:
    return tuple(
        ShapeSpeedup(shape=name, weight=1.0, speedup=given.interval(value), against="compile")
        for name, value in (("main", main), ("decode", decode))
    )


def ended(*speedups: tuple[float, float], **rules: bool) -> tuple[PlannerState, list[Decision]]:
    """A session whose whole budget is diagnosed with speedups at two shapes; what was decided last."""
    state = PlannerState()
    decisions = decide(state, given.opened(budget=len(speedups), policy_options={"width": 9}, **rules))
    last: list[Decision] = decisions
    for number, (main, decode) in enumerate(speedups, 1):
        mean = (main * decode) ** 0.5
        last = decide(state, given.diagnosed(mean, shapes=shapes(main, decode)), f"n{number:03d}")
    return state, last


def test_the_best_of_each_shape_becomes_one_file_before_finalists_are_confirmed() -> None:
    state, (decision,) = ended((3.0, 1.0), (1.5, 1.5), (1.0, 2.5))

    plan = decision.event
    assert isinstance(plan, NodePlanned) and plan.intent is Intent.dispatch and decision.node == "n004"
    assert plan.kernels == {"main": "n001", "decode": "n003"} and plan.parent == "n001" and plan.number == 4

    confirmations = decide(state, given.diagnosed(2.7, shapes=shapes(3.0, 2.5)), "n004")

    assert [(d.node, type(d.event)) for d in confirmations] == [
        (name, ConfirmationPlanned) for name in ("n004", "n001", "n003")
    ]


def test_a_file_that_fails_leaves_the_others_as_they_were() -> None:
    state, _ = ended((3.0, 1.0), (1.0, 2.5))

    confirmations = decide(state, given.diagnosed(0.0, given.Verdict.wrong_numbers), "n003")

    assert [d.node for d in confirmations] == ["n001", "n002"]


@pytest.mark.parametrize(
    "speedups", [[(3.0, 2.0), (1.0, 1.0)], [(3.0, 2.0), (2.9, 2.05)], [(1.0, 1.0)]], ids=["one", "noise", "alone"]
)
def test_one_kernel_that_is_the_best_everywhere_needs_no_file(speedups: list[tuple[float, float]]) -> None:
    _, decisions = ended(*speedups)

    assert decisions and all(isinstance(decision.event, ConfirmationPlanned) for decision in decisions)


def test_one_timed_shape_needs_no_file() -> None:
    state = PlannerState()
    decide(state, given.opened(budget=2, policy_options={"width": 9}))
    decide(state, given.diagnosed(1.5), "n001")

    assert all(isinstance(d.event, ConfirmationPlanned) for d in decide(state, given.diagnosed(2.0), "n002"))


def test_a_target_that_is_reached_waits_for_the_file() -> None:
    state = PlannerState()
    decide(state, given.opened(budget=8, target=1.2, policy_options={"width": 9}))
    decide(state, given.diagnosed(1.0, shapes=shapes(0.5, 2.0)), "n001")
    (decision,) = decide(state, given.diagnosed(1.7, shapes=shapes(3.0, 1.0)), "n002")
    assert isinstance(decision.event, NodePlanned) and decision.event.intent is Intent.dispatch

    assert decide(state, given.diagnosed(1.0, shapes=shapes(1.0, 1.0)), "n003") == []
    assert decide(state, given.diagnosed(2.4, shapes=shapes(3.0, 2.0)), decision.node)


def test_no_file_once_the_time_is_over() -> None:
    state = PlannerState()
    decide(state, given.opened(budget=2, policy_options={"width": 9}))
    decide(state, given.diagnosed(1.7, shapes=shapes(3.0, 1.0)), "n001")
    decide(state, StopRequested(reason="minutes"))

    decisions = decide(state, given.diagnosed(1.6, shapes=shapes(1.0, 2.5)), "n002")

    assert decisions and all(isinstance(decision.event, ConfirmationPlanned) for decision in decisions)


@pytest.mark.parametrize(
    ("rules", "ordinary", "by"),
    [
        ({}, None, ""),
        ({"names_worst_shapes": True}, None, " by the judge"),
        ({"names_worst_shapes": True}, given.interval(1.7), " in ordinary processes"),
    ],
)
def test_the_close_names_the_worst_shape(rules: dict[str, bool], ordinary: Interval | None, by: str) -> None:
    """The analyst's sentence names the judge's worst shape, which may be another one."""
    state, decisions = ended((3.0, 1.1), **rules)
    confirmed = given.diagnosed(1.8, shapes=shapes(3.0, 1.1), ordinary=ordinary, confirmation=True)
    closed = decide(state, confirmed, decisions[0].node)[0].event

    assert isinstance(closed, SessionClosed)
    assert f"the worst of its 2 shapes{by} is decode: 1.10x" in closed.detail


def test_the_file_is_made_of_the_nodes_that_the_plan_names() -> None:
    opened = given.opened()
    main = opened.facts.shapes[0]
    graph = SearchGraph("s")
    plan = NodePlanned(
        parent="n001", intent=Intent.dispatch, memory=MemoryOperator.combine, kernels={main.name: "n002"}
    )
    assert isinstance(dispatched(graph, opened, plan), SynthesisFailed)

    for name in ("n001", "n002"):
        graph.nodes[name] = NodeRecord(name, candidate=given.candidate(f"def kernel(x):\n    return {name!r}\n"))
    candidate = dispatched(graph, opened, plan)

    assert isinstance(candidate, CandidateProposed) and candidate.parents == ("n001", "n002")
    assert set(parts_of(candidate.source)) == {"n001", "n002"}
