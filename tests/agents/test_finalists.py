"""A first timing may be false: it makes no win, reaches no aim, and takes nobody's place among the finalists."""

import pytest
from planner_ring import Ring

import given
from kernelswarm.agents.planner.finalists import FINALISTS
from kernelswarm.agents.planner.machine import Decision
from kernelswarm.knowledge import Trial, distill
from kernelswarm.schemas import ConfirmationPlanned, NodePlanned, SessionClosed, StopRequested, Verdict


def ring(**opened: object) -> Ring:
    return Ring(trusts_finalists=True, **opened)


def confirmations(decisions: list[Decision]) -> list[str]:
    return [decision.node for decision in decisions if isinstance(decision.event, ConfirmationPlanned)]


def plans(decisions: list[Decision]) -> list[str]:
    return [decision.node for decision in decisions if isinstance(decision.event, NodePlanned)]


def wrong_when_tested() -> object:
    return given.diagnosed(0.0, Verdict.wrong_numbers, confirmation=True)


AIMS = {"target": ({"target": 2.0}, {}), "floor": ({}, {"roofline_fraction": 0.98})}


@pytest.mark.parametrize("aim", AIMS)
def test_who_reaches_an_aim_as_a_finalist_ends_the_search(aim: str) -> None:
    opened, numbers = AIMS[aim]
    search = ring(budget=40, **opened)
    assert confirmations(search.tell(given.diagnosed(2.5, **numbers), "n001")) == ["n001"]
    assert not search.tell(given.diagnosed(1.2), "n002"), "nothing is planned while that is open"
    decisions = search.tell(given.diagnosed(2.5, confirmation=True, **numbers), "n001")
    assert confirmations(decisions) == ["n002"], "it may be the faster one as a finalist"
    (closing,) = search.tell(given.diagnosed(1.2, confirmation=True), "n002")
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.reason, closing.event.best, closing.event.win) == (aim, "n001", True)


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("finalist", [wrong_when_tested(), given.diagnosed(1.1, confirmation=True)])
def test_who_does_not_reach_it_as_a_finalist_ends_no_search(aim: str, finalist: object) -> None:
    opened, numbers = AIMS[aim]
    search = ring(budget=40, **opened)
    search.tell(given.diagnosed(2.5, **numbers), "n001")
    for node in sorted(search.state.in_flight):
        assert plans(search.tell(given.diagnosed(1.2), node)) == []
    assert plans(search.tell(finalist, "n001")), "the search goes on"
    assert search.state.best_seen == pytest.approx(1.2), "what was false was no progress"


def test_a_skill_says_that_its_best_was_timed_once() -> None:
    trials = [Trial(node="n001", verdict=Verdict.correct, speedup=2.0, rationale="tiles")]
    for names_unconfirmed in (True, False):
        skill = distill(
            *(given.problem(), given.facts(), given.pool(), trials),
            session="s",
            names_unconfirmed=names_unconfirmed,
        )
        assert skill is not None and ("not confirmed" in skill.title) == names_unconfirmed
        assert skill.text.count("not confirmed") == 2 * names_unconfirmed


@pytest.mark.parametrize("awaits_verdicts", [True, False])
def test_who_has_lost_is_no_reason_to_close_without_what_is_under_way(awaits_verdicts: bool) -> None:
    search = ring(budget=40, hopeless_below=0.9, awaits_verdicts=awaits_verdicts)
    search.tell(given.diagnosed(0.95, speedup=given.interval(0.95, 0.02)), "n001")
    decisions = search.tell(StopRequested(reason="minutes"))
    assert confirmations(decisions) == ([] if awaits_verdicts else ["n001"])
    if awaits_verdicts:
        assert confirmations(search.tell(given.diagnosed(1.24), "n002")) == ["n002"]


@pytest.mark.parametrize(("budget", "waits"), [(4, True), (9, False)])
def test_a_search_of_few_candidates_improves_the_best_of_its_drafts(budget: int, waits: bool) -> None:
    search = ring(budget=budget, awaits_verdicts=True, policy_options={"doubt": 1.0})
    assert len(plans(search.tell(given.diagnosed(0.7), "n001"))) == (0 if waits else 1)
    search.tell(given.diagnosed(1.2), "n002")
    decisions = search.tell(given.diagnosed(0.5), "n003")
    if waits:
        (plan,) = (decision.event for decision in decisions if isinstance(decision.event, NodePlanned))
        assert plan.parent == "n002"


def test_a_target_counts_in_ordinary_processes_too() -> None:
    search = ring(budget=40, target=2.0)
    search.tell(given.diagnosed(2.5), "n001")
    slower = given.diagnosed(2.5, confirmation=True, ordinary=given.interval(1.9))
    search.tell(slower, "n001")
    assert not search.state.finishing


def test_the_next_who_seems_to_reach_it_is_tested_after_the_first() -> None:
    search = ring(budget=40, target=2.0)
    search.tell(given.diagnosed(2.5), "n001")
    assert confirmations(search.tell(given.diagnosed(2.6), "n002")) == []
    assert confirmations(search.tell(wrong_when_tested(), "n001")) == ["n002"]
    decisions = search.tell(given.diagnosed(2.6, confirmation=True), "n002")
    assert search.state.finishing == "target" and not plans(decisions)


def test_refuted_finalists_make_room_for_the_next_best() -> None:
    false = FINALISTS + 1
    search = ring(budget=6)
    for number in range(1, 7):
        search.tell(given.diagnosed(9.0 if number <= false else 1.5), f"n00{number}")
    tested = []
    while search.closed() is None:
        node = next(node for node in confirmations(search.decisions) if node not in tested)
        tested.append(node)
        search.tell(given.diagnosed(1.5, confirmation=True) if int(node[1:]) > false else wrong_when_tested(), node)
    closed = search.closed()
    assert closed is not None and closed.win and closed.best in ("n005", "n006")
    assert sorted(tested) == [f"n00{number}" for number in range(1, 7)]


def test_a_finalist_of_whom_the_harness_could_not_tell_keeps_its_place() -> None:
    search = ring(budget=6)
    for number in range(1, 7):
        search.tell(given.diagnosed(1.5), f"n00{number}")
    for number in range(1, 4):
        search.tell(given.diagnosed(0.0, Verdict.harness_error, confirmation=True), f"n00{number}")
    assert search.closed() is not None


@pytest.mark.parametrize("best_first", [True, False])
def test_the_best_of_the_undecided_is_timed_again_before_the_others(best_first: bool) -> None:
    search = Ring(budget=3, trusts_finalists=best_first, confirmations=2)
    for number in (1, 2, 3):
        search.tell(given.diagnosed(1.5), f"n00{number}")
    for node, spread in {"n001": 0.4, "n002": 0.2, "n003": 0.22}.items():
        wide = given.interval(1.2, spread)
        search.tell(given.diagnosed(1.2, confirmation=True, speedup=wide), node)
    again = [node for node, times in _times_confirmed(search).items() if times == 2]
    assert again == (["n002"] if best_first else ["n001", "n002", "n003"])
    if best_first:
        search.tell(given.diagnosed(1.005, confirmation=True), "n002")
        assert _times_confirmed(search)["n003"] == 2, "the next best follows"
        search.tell(given.diagnosed(1.3, confirmation=True), "n003")
        closed = search.closed()
        assert closed is not None and closed.win, "none follows a win"


@pytest.mark.parametrize(("spread", "times"), [(0.2, 2), (0.5, 1)])
def test_who_scatters_too_much_to_be_decided_is_not_timed_again(spread: float, times: int) -> None:
    search = ring(budget=1, confirmations=2)
    search.tell(given.diagnosed(1.5), "n001")
    wide = given.interval(1.2, spread)
    search.tell(given.diagnosed(1.2, confirmation=True, speedup=wide), "n001")
    assert _times_confirmed(search) == {"n001": times}
    assert (search.closed() is None) == (times == 2)


def _times_confirmed(search: Ring) -> dict[str, int]:
    times: dict[str, int] = {}
    for node in confirmations(search.decisions):
        times[node] = times.get(node, 0) + 1
    return dict(sorted(times.items()))


@pytest.mark.parametrize("confirmed_alone", [True, False])
def test_an_evaluation_that_is_interrupted_before_its_second_timing_is_no_win(confirmed_alone: bool) -> None:
    search = Ring(budget=1, evaluation=True, trusts_finalists=confirmed_alone)
    search.tell(given.diagnosed(2.5), "n001")
    (closing,) = search.tell(StopRequested(reason="interrupted"))
    assert isinstance(closing.event, SessionClosed)
    # Older sessions took it for one.
    assert closing.event.win != confirmed_alone and closing.event.wins == (not confirmed_alone)
    assert ("before a second run confirmed" in closing.event.detail) == confirmed_alone


@pytest.mark.parametrize("wins_first", [True, False])
def test_an_undecided_finalist_hides_no_win(wins_first: bool) -> None:
    search = Ring(budget=2, trusts_finalists=wins_first, confirmations=1)
    for node in ("n001", "n002"):
        search.tell(given.diagnosed(1.5), node)
    search.tell(given.diagnosed(1.4, confirmation=True, speedup=given.interval(1.4, 0.5)), "n001")
    search.tell(given.diagnosed(1.2, confirmation=True), "n002")
    closed = search.closed()
    assert closed is not None and (closed.best, closed.win) == (("n002", True) if wins_first else ("n001", False))
