"""The planner as a specification: given events, when one more comes, then these decisions."""

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from planner_ring import Ring

import given
from kernelswarm.agents.planner.finalists import FINALISTS
from kernelswarm.agents.planner.machine import WIDTH, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.schemas import (
    DEADLINE,
    ConfirmationPlanned,
    Intent,
    KernelswarmError,
    SessionClosed,
    StopRequested,
    Verdict,
)


def test_opening_plans_every_draft_at_once() -> None:
    ring = Ring(budget=40)
    assert [plan.intent for _, plan in ring.plans()] == [Intent.draft] * 10
    assert [node for node, _ in ring.plans()][:3] == ["n001", "n002", "n003"]
    assert len({plan.draw for _, plan in ring.plans()}) == 10


def test_a_small_budget_is_not_spent_on_drafts_alone() -> None:
    assert [plan.intent for _, plan in Ring(budget=12).plans()] == [Intent.draft] * 4


def test_after_the_drafts_so_many_are_under_way_as_the_width_says() -> None:
    ring = Ring(budget=12)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.5), node)
    assert len(ring.state.in_flight) == WIDTH


def test_a_session_that_was_opened_with_a_width_keeps_that_many_under_way() -> None:
    ring = Ring(budget=40, policy_options={"width": 8})
    for number in range(1, 16):
        ring.tell(given.diagnosed(1.5), f"n{number:03d}")
        assert len(ring.state.in_flight) == max(8, 10 - number)


def test_budget_is_never_exceeded_and_is_spent() -> None:
    ring = Ring(budget=12)
    closed = ring.run([1.0, 1.1, 0.0, 1.2])
    assert len(ring.plans()) == closed.candidates == 12
    assert closed.reason == "budget"


def test_after_the_drafts_the_best_is_deepened() -> None:
    ring = Ring(budget=30, policy_options={"doubt": 0.0, "drafts": 4})
    ring.run([1.0, 3.0, 1.5, 1.2, 2.0])
    improved = [plan.parent for _, plan in ring.plans() if plan.intent is Intent.improve]
    assert improved and improved[0] == "n002"


def test_a_broken_node_is_repaired_once_and_its_repair_once_more() -> None:
    ring = Ring(budget=30)
    ring.run([0.0])
    repairs = [(node, plan.parent) for node, plan in ring.plans() if plan.intent is Intent.repair]
    assert repairs
    parents = [parent for _, parent in repairs]
    assert len(parents) == len(set(parents))
    second = {node for node, parent in repairs if any(parent == other for other, _ in repairs)}
    assert not second & set(parents)


def test_the_target_ends_the_search_with_a_confirmation() -> None:
    ring = Ring(budget=40, target=2.0)
    closed = ring.run([1.0, 2.5])
    assert closed.reason == "target" and closed.win and closed.best == "n002"
    assert any(isinstance(d.event, ConfirmationPlanned) for d in ring.decisions)


def test_a_target_that_is_reached_does_not_wait_for_what_is_under_way() -> None:
    ring = Ring(budget=40, target=2.0)
    last = ring.tell(given.diagnosed(2.5), "n001")
    assert [(type(d.event), d.node) for d in last] == [(ConfirmationPlanned, "n001")]
    assert ring.tell(given.diagnosed(1.2), "n002") == []
    (closing,) = ring.tell(given.diagnosed(2.4, confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and closing.event.win


def test_a_win_that_does_not_survive_its_confirmation_is_no_win() -> None:
    closed = Ring(budget=6).run([1.1], confirm=0.9)
    assert not closed.win
    assert closed.detail.startswith("no win found")


def test_the_confirmed_number_is_the_one_reported() -> None:
    closed = Ring(budget=6).run([2.0], confirm=0.95)
    assert closed.speedup is not None and closed.speedup.median == pytest.approx(1.9)


def test_only_finalists_near_the_best_are_confirmed() -> None:
    ring = Ring(budget=6)
    ring.run([1.0, 2.0, 1.99, 1.98, 1.97, 1.0])
    confirmed = [d.node for d in ring.decisions if isinstance(d.event, ConfirmationPlanned)]
    assert confirmed == ["n002", "n003", "n004"] and len(confirmed) == FINALISTS


def test_a_session_may_ask_for_fewer_finalists() -> None:
    ring = Ring(budget=6, policy_options={"finalists": 1})
    ring.run([1.0, 2.0, 1.99, 1.98, 1.97, 1.0])
    assert [d.node for d in ring.decisions if isinstance(d.event, ConfirmationPlanned)] == ["n002"]


def test_nothing_right_closes_without_a_win() -> None:
    closed = Ring(budget=5).run([0.0])
    assert (closed.win, closed.best, closed.correct) == (False, "", 0)


def test_no_progress_ends_the_search() -> None:
    closed = Ring(budget=100).run([1.5])
    assert closed.reason == "stall" and closed.candidates < 70


def test_the_floor_ends_the_search() -> None:
    ring = Ring(budget=40)
    ring.tell(given.diagnosed(1.2, roofline_fraction=0.99), "n001")
    assert ring.state.finishing == "floor"


@pytest.mark.parametrize(("closer_diagnoses", "reason"), [(True, ""), (False, "floor")])
def test_a_floor_that_a_kernel_passes_ends_no_search(closer_diagnoses: bool, reason: str) -> None:
    ring = Ring(budget=40, closer_diagnoses=closer_diagnoses)
    ring.tell(given.diagnosed(1.2, roofline_fraction=2.73), "n001")
    ring.tell(given.diagnosed(1.1, roofline_fraction=0.99), "n002")
    assert ring.state.finishing == reason


def test_exhaustion_lets_what_is_under_way_finish() -> None:
    ring = Ring(budget=12)
    assert ring.tell(given.diagnosed(verdict=Verdict.synthesis_failed, exhausted=True), "n001") == []
    assert ring.tell(given.diagnosed(1.5), "n002") == []
    ring.tell(given.diagnosed(1.4), "n003")
    last = ring.tell(given.diagnosed(1.45), "n004")
    assert [(type(d.event), d.node) for d in last] == [(ConfirmationPlanned, node) for node in ("n002", "n004", "n003")]


def test_an_interruption_closes_at_once() -> None:
    ring = Ring()
    ring.tell(given.diagnosed(1.5), "n001")
    decisions = ring.tell(StopRequested(reason="interrupted"))
    assert [type(d.event) for d in decisions] == [SessionClosed]
    assert ring.tell(given.diagnosed(9.0), "n002") == []


def test_spent_minutes_plan_nothing_new_but_confirm() -> None:
    ring = Ring()
    assert ring.tell(StopRequested(reason="minutes")) == []
    plans = len(ring.plans())
    ring.tell(given.diagnosed(1.5), "n001")
    ring.tell(given.diagnosed(1.5), "n002")
    ring.tell(given.diagnosed(1.5), "n003")
    last = ring.tell(given.diagnosed(1.5), "n004")
    assert len(ring.plans()) == plans
    assert all(isinstance(d.event, ConfirmationPlanned) for d in last)


def test_when_time_is_over_the_best_is_confirmed_without_waiting() -> None:
    ring = Ring(hopeless_below=0.9)
    ring.tell(given.diagnosed(1.2), "n001")
    ring.tell(given.diagnosed(1.5), "n002")

    last = ring.tell(StopRequested(reason="minutes"))

    assert [d.node for d in last if isinstance(d.event, ConfirmationPlanned)] == ["n002"]
    ring.tell(given.diagnosed(1.5, confirmation=True), "n002")
    closed = ring.closed()
    assert closed is not None and (closed.best, closed.win, closed.reason) == ("n002", True, "minutes")


def test_at_the_deadline_it_closes_with_what_it_has() -> None:
    ring = Ring(hopeless_below=0.9, failures_alike=3, minutes=5.0, reserve=1.0, confirmations=3)
    ring.tell(given.diagnosed(1.2), "n001")
    ring.tell(StopRequested(reason="minutes"))
    assert ring.state.confirming == ["n001"]
    ring.tell(StopRequested(reason=DEADLINE))

    closed = ring.closed()
    assert closed is not None and (closed.best, closed.win, closed.reason) == ("n001", False, "minutes")
    assert closed.detail.endswith("it ended before a second run confirmed that")


def test_what_was_not_confirmed_by_the_deadline_is_said_though_it_is_no_win() -> None:
    ring = Ring(hopeless_below=0.9, failures_alike=3, minutes=5.0, reserve=1.0, confirmations=3)
    ring.tell(given.diagnosed(1.2, speedup=given.interval(1.2, 0.3)), "n001")
    ring.tell(StopRequested(reason=DEADLINE))
    closed = ring.closed()
    assert closed is not None and closed.detail.startswith("no win found: the best candidate stands at 1.20x")
    assert closed.detail.endswith("not confirmed by a second run")


def test_a_deadline_while_finalists_of_a_spent_budget_are_confirmed_is_the_reason() -> None:
    ring = Ring(budget=2, hopeless_below=0.9, failures_alike=3, minutes=5.0, reserve=1.0, confirmations=3)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.2), node)
    assert ring.state.finishing == "budget"
    ring.tell(given.diagnosed(1.2, confirmation=True, ordinary=given.interval(1.3)), "n001")
    ring.tell(StopRequested(reason=DEADLINE))

    closed = ring.closed()
    assert closed is not None and (closed.best, closed.win, closed.reason) == ("n001", True, "minutes")


def test_a_deadline_before_anything_was_judged_says_so() -> None:
    ring = Ring(hopeless_below=0.9, failures_alike=3, minutes=0.3, reserve=0.1)
    assert ring.tell(StopRequested(reason="minutes")) == []
    ring.tell(StopRequested(reason=DEADLINE))

    closed = ring.closed()
    assert closed is not None and (closed.best, closed.reason, closed.candidates) == ("", "minutes", 0)
    assert closed.detail == "no win found: its time was over before a candidate was judged; give it more"


@pytest.mark.parametrize(("minutes", "says"), [(2.0, "2 minutes ended"), (1.0, "1 minute ended")])
def test_a_deadline_before_anything_was_judged_names_the_option(minutes: float, says: str) -> None:
    ring = Ring(hopeless_below=0.9, failures_alike=3, minutes=minutes, reserve=0.4 * minutes, trusts_finalists=True)
    ring.tell(StopRequested(reason="minutes"))
    ring.tell(StopRequested(reason=DEADLINE))

    closed = ring.closed()
    assert closed is not None and says in closed.detail
    assert closed.detail.endswith(f"before a candidate was judged; give it more (--minutes {2 * minutes:g})")


@pytest.mark.parametrize(("reserve", "then"), [(1.0, ["n001"]), (0.0, [])])
def test_while_time_is_left_the_next_best_is_confirmed_after_a_finalist_that_is_no_win(
    reserve: float, then: list[str]
) -> None:
    ring = Ring(hopeless_below=0.9, failures_alike=3, minutes=5.0, reserve=reserve, confirmations=3)
    ring.tell(given.diagnosed(1.0), "n002")
    assert [d.node for d in ring.tell(StopRequested(reason="minutes"))] == ["n002"]
    assert ring.tell(given.diagnosed(2.8), "n001") == []  # it was timed while the other one was confirmed

    last = ring.tell(given.diagnosed(0.7, confirmation=True), "n002")

    assert [d.node for d in last if isinstance(d.event, ConfirmationPlanned)] == then
    ring.tell(given.diagnosed(2.8, confirmation=True, ordinary=given.interval(2.5)), "n001")
    closed = ring.closed()
    assert closed is not None and closed.best == ("n001" if then else "n002")


def test_when_time_is_over_and_nothing_can_win_what_is_under_way_is_waited_for() -> None:
    ring = Ring(hopeless_below=0.9)
    ring.tell(given.diagnosed(0.3), "n001")

    assert ring.tell(StopRequested(reason="minutes")) == []
    for name in sorted(ring.state.in_flight):
        ring.tell(given.diagnosed(0.3), name)

    closed = ring.closed()
    assert closed is not None and (closed.best, closed.win) == ("n001", False)
    assert "no win found: the best candidate stands at 0.30x" in closed.detail


def test_a_finalist_that_cannot_win_is_not_timed_again() -> None:
    ring = Ring(budget=6, hopeless_below=0.9)
    closed = ring.run([0.26, 0.3, 1.1, 0.25])

    confirmed = [d.node for d in ring.decisions if isinstance(d.event, ConfirmationPlanned)]
    assert confirmed == ["n003"] and closed.best == "n003" and closed.win


def test_older_sessions_time_all_finalists_again() -> None:
    ring = Ring(budget=6)
    ring.run([0.26, 0.3, 0.31, 0.25])

    assert sum(isinstance(d.event, ConfirmationPlanned) for d in ring.decisions) == FINALISTS


def test_a_diagnosis_that_comes_twice_changes_nothing() -> None:
    ring = Ring()
    ring.tell(given.diagnosed(1.5), "n001")
    before = dict(ring.state.nodes)
    assert ring.tell(given.diagnosed(7.0), "n001") == []
    assert ring.state.nodes == before and ring.state.nodes["n001"].fitness == 1.5


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(KernelswarmError, match=r"'gready'.*greedy"):
        Ring(policy="gready")


@settings(max_examples=60, deadline=None)
@for_all(
    seed=st.integers(0, 2**31),
    budget=st.integers(1, 30),
    fitness=st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.3, 4.0]), min_size=1, max_size=9),
)
def test_the_same_log_gives_the_same_decisions_and_every_session_ends(
    seed: int, budget: int, fitness: list[float]
) -> None:
    ring = Ring(seed=seed, budget=budget)
    closed = ring.run(fitness)
    fresh = PlannerState()
    again = [decision for event, node in ring.inputs for decision in decide(fresh, event, node)]
    assert again == ring.decisions
    assert closed.candidates <= budget
    names = [node for node, _ in ring.plans()]
    assert len(names) == len(set(names))
    assert all(plan.parent in ("", *names) for _, plan in ring.plans())
