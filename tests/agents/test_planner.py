"""The planner as a specification: given events, when one more comes, then these decisions."""

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

import given
from kernelswarm.agents.planner.machine import FINALISTS, WIDTH, Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.schemas import (
    ConfirmationPlanned,
    Event,
    Intent,
    KernelswarmError,
    NodePlanned,
    SessionClosed,
    StopRequested,
    Verdict,
)


class Ring:
    """Plays the other agents: answers every plan with the next fitness, keeps every decision."""

    def __init__(self, **opened: object) -> None:
        self.state = PlannerState()
        self.decisions: list[Decision] = []
        self.inputs: list[tuple[Event, str]] = []
        self.tell(given.opened(**opened))

    def tell(self, event: Event, node: str = "") -> list[Decision]:
        self.inputs.append((event, node))
        decisions = decide(self.state, event, node)
        self.decisions += decisions
        return decisions

    def plans(self) -> list[tuple[str, NodePlanned]]:
        return [(d.node, d.event) for d in self.decisions if isinstance(d.event, NodePlanned)]

    def closed(self) -> SessionClosed | None:
        return next((d.event for d in self.decisions if isinstance(d.event, SessionClosed)), None)

    def run(self, fitness: "list[float]", confirm: float = 1.0) -> SessionClosed:
        """Answer until it closes; node i gets ``fitness[i % len]``, 0 meaning wrong; confirmations scale it."""
        answered = 0
        while self.closed() is None:
            assert answered < len(self.decisions), "the planner waits although nothing is under way"
            decision = self.decisions[answered]
            answered += 1
            number = int(decision.node[1:]) - 1 if decision.node else 0
            value = fitness[number % len(fitness)]
            match decision.event:
                case NodePlanned():
                    verdict = Verdict.correct if value else Verdict.wrong_numbers
                    self.tell(given.diagnosed(value, verdict), decision.node)
                case ConfirmationPlanned():
                    self.tell(given.diagnosed(value * confirm, confirmation=True), decision.node)
        closed = self.closed()
        assert closed is not None
        return closed


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


# A win needs ordinary processes as well, where they were measured.


def confirmed(ring: Ring, node: str, speedup: float, ordinary: "float | None", **changes: object) -> list[Decision]:
    """Answer the first confirmation of ``node``."""
    interval = None if ordinary is None else given.interval(ordinary)
    fields = dict(confirmation=True, ordinary=interval, ordinary_against="compile" if interval else "") | changes
    return ring.tell(given.diagnosed(speedup, **fields), node)


def of_one_candidate(**opened: object) -> Ring:
    ring = Ring(budget=1, **opened)
    ring.tell(given.diagnosed(1.5), "n001")
    return ring


def test_a_win_is_reported_with_the_ordinary_ratio_and_keeps_the_judges() -> None:
    (closing,) = confirmed(of_one_candidate(), "n001", 1.5, 1.3)
    closed = closing.event
    assert isinstance(closed, SessionClosed) and closed.win
    assert (closed.speedup, closed.judged) == (given.interval(1.3), given.interval(1.5))
    assert (closed.against, closed.judged_against) == ("compile", "compile")
    assert "1.30x (1.27 to 1.33) as fast as torch.compile in ordinary processes" in closed.detail
    assert "1.50x (1.47 to 1.53) of torch.compile by the judge" in closed.detail


@pytest.mark.parametrize(("judged", "ordinary"), [(1.5, 0.9), (0.9, 1.5)])
def test_one_ratio_below_1_is_no_win(judged: float, ordinary: float) -> None:
    (closing,) = confirmed(of_one_candidate(confirmations=3), "n001", judged, ordinary)
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
    assert closing.event.wins == 0 and closing.event.detail.startswith("no win found")


def test_what_could_not_be_timed_in_ordinary_processes_is_no_win_and_says_why() -> None:
    (closing,) = confirmed(of_one_candidate(confirmations=3), "n001", 1.5, None, ordinary_missing="no compiler there")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
    assert "n001 was not timed in ordinary processes: no compiler there" in closing.event.detail


def test_what_was_interrupted_before_it_was_confirmed_is_no_win() -> None:
    ring = Ring(budget=2, confirmations=3)
    ring.tell(given.diagnosed(1.5), "n001")
    (closing,) = ring.tell(StopRequested(reason="interrupted"), "")
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.best, closing.event.win, closing.event.wins) == ("n001", False, 0)
    assert closing.event.detail.startswith("no win found: n001 stands at 1.50x")
    assert closing.event.detail.endswith("it ended before a second run confirmed that")


def test_the_best_is_the_one_that_wins_in_ordinary_processes() -> None:
    ring = Ring(budget=3)
    for node in ("n001", "n002", "n003"):
        ring.tell(given.diagnosed(1.5), node)
    confirmed(ring, "n001", 1.9, 0.8)
    confirmed(ring, "n002", 1.5, 1.2)
    (closing,) = confirmed(ring, "n003", 1.4, 1.3)
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.best, closing.event.win) == ("n003", True)


def test_without_a_win_one_fast_number_does_not_make_up_for_a_slow_one() -> None:
    ring = Ring(budget=2)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.5), node)
    confirmed(ring, "n001", 0.6, 4.5)
    (closing,) = confirmed(ring, "n002", 0.9, 1.2)
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.best, closing.event.win) == ("n002", False)


def test_a_baseline_that_could_not_be_timed_is_named() -> None:
    (closing,) = confirmed(of_one_candidate(against="compile"), "n001", 1.5, None, against="eager")
    assert isinstance(closing.event, SessionClosed) and closing.event.win
    assert "as fast as eager" in closing.event.detail and "torch.compile could not be timed" in closing.event.detail


# Finalists near 1.


def processes(decisions: list[Decision]) -> "list[tuple[str, int]]":
    return [(d.node, d.event.processes) for d in decisions if isinstance(d.event, ConfirmationPlanned)]


def test_a_finalist_near_1_is_timed_in_more_processes_until_it_is_decided() -> None:
    ring = of_one_candidate(confirmations=3)
    wide = given.interval(1.05, 0.1)
    assert processes(ring.tell(given.diagnosed(1.05, speedup=wide, confirmation=True), "n001")) == [("n001", 8)]
    (closing,) = ring.tell(given.diagnosed(1.05, confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and closing.event.win


def test_a_finalist_that_stays_near_1_is_given_up_after_so_many_confirmations() -> None:
    ring = of_one_candidate(confirmations=3)
    near = given.diagnosed(1.5, ordinary=given.interval(1.03, 0.05), confirmation=True)
    assert processes(ring.tell(near, "n001")) == [("n001", 8)]
    assert processes(ring.tell(near, "n001")) == [("n001", 16)]
    (closing,) = ring.tell(near, "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win


@pytest.mark.parametrize(
    "opened",
    [dict(confirmations=1), dict(), dict(confirmations=3, hopeless=True)],
    ids=["once", "as older sessions", "hopeless"],
)
def test_no_more_samples_are_taken(opened: "dict[str, object]") -> None:
    median = 0.99 if opened.pop("hopeless", False) else 1.05
    ring = of_one_candidate(**opened)
    (closing,) = ring.tell(given.diagnosed(median, speedup=given.interval(median, 0.1), confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win


def test_a_finalist_that_wins_ends_the_sampling_of_the_others() -> None:
    ring = Ring(budget=3, confirmations=3)
    for node in ("n001", "n002", "n003"):
        ring.tell(given.diagnosed(1.5), node)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.05, speedup=given.interval(1.05, 0.1), confirmation=True), node)
    (closing,) = ring.tell(given.diagnosed(1.2, confirmation=True), "n003")
    assert isinstance(closing.event, SessionClosed) and (closing.event.best, closing.event.win) == ("n003", True)


def test_no_further_samples_once_the_time_is_over() -> None:
    ring = Ring(budget=3, confirmations=3)
    ring.tell(given.diagnosed(1.5), "n001")
    ring.tell(StopRequested(reason="minutes"))
    ring.state.in_flight.clear()
    near = given.diagnosed(1.05, speedup=given.interval(1.05, 0.1), confirmation=True)
    ring.state.confirming = ["n001"]
    (closing,) = ring.tell(near, "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
