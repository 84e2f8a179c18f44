"""Searches without a candidate: given failed syntheses, when the planner hears of them, then it stops."""

import pytest

import given
from kernelswarm.agents.distiller import lesson
from kernelswarm.agents.planner.machine import Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.schemas import (
    Bottleneck,
    Finding,
    Interval,
    NodeDiagnosed,
    NodePlanned,
    SessionClosed,
    StopRequested,
    Verdict,
)


def no_candidate(reason: str = "no answer", *, exhausted: bool = False) -> NodeDiagnosed:
    return NodeDiagnosed(
        verdict=Verdict.synthesis_failed,
        fitness=0.0,
        bottleneck=Bottleneck.fault,
        summary=f"playbook made no candidate: {reason}",
        evidence=(Finding(name="backend", value="playbook", meaning=reason),),
        exhausted=exhausted,
    )


class Search:
    """A planner and what it decided; nodes are answered in the order of their planning."""

    def __init__(self, *answers: NodeDiagnosed, **opened: object) -> None:
        self.state, self.decisions = PlannerState(), list[Decision]()
        self.tell(given.opened(**({"budget": 40, "failures_alike": 3} | opened)))
        for answer in answers:
            waiting = [name for name, node in self.state.nodes.items() if node.verdict is None]
            self.tell(answer, waiting[0])

    def tell(self, event: object, node: str = "") -> None:
        self.decisions += decide(self.state, event, node)  # type: ignore[arg-type]

    def answer_the_rest(self, answer: NodeDiagnosed) -> None:
        for name in [name for name, node in self.state.nodes.items() if node.verdict is None]:
            self.tell(answer, name)

    def closed(self) -> SessionClosed:
        return next(decision.event for decision in self.decisions if isinstance(decision.event, SessionClosed))

    def plans(self) -> int:
        return sum(isinstance(decision.event, NodePlanned) for decision in self.decisions)


def test_what_is_under_way_is_awaited_and_then_the_session_closes_without_a_candidate() -> None:
    search = Search(no_candidate("nothing to fuse", exhausted=True), budget=4)
    assert not any(isinstance(decision.event, SessionClosed) for decision in search.decisions)
    search.answer_the_rest(no_candidate("nothing to fuse", exhausted=True))
    closed = search.closed()
    assert (closed.reason, closed.candidates, closed.correct) == ("nothing_to_try", 0, 0)
    assert closed.detail == "no candidate was made: nothing to fuse"


def test_three_syntheses_in_a_row_that_fail_alike_end_the_planning() -> None:
    search = Search(*[no_candidate("the key is refused")] * 3, policy_options={"drafts": 1})
    planned = search.plans()
    search.answer_the_rest(no_candidate("the key is refused"))
    assert search.plans() == planned < 40
    assert search.closed().reason == "nothing_to_try"
    assert search.closed().detail == "no candidate was made: the key is refused"


@pytest.mark.parametrize("between", [no_candidate("another reason"), given.diagnosed(1.2)])
def test_failures_that_are_not_alike_or_not_in_a_row_do_not(between: NodeDiagnosed) -> None:
    alike = no_candidate("the key is refused")
    search = Search(alike, alike, between, alike, alike, policy_options={"drafts": 1})
    assert not search.state.finishing


def test_a_session_that_has_candidates_keeps_the_best_of_them_when_synthesis_fails() -> None:
    search = Search(given.diagnosed(1.5), *[no_candidate()] * 3, policy_options={"drafts": 1})
    search.answer_the_rest(no_candidate())
    search.tell(given.diagnosed(1.5, confirmation=True), "n001")
    closed = search.closed()
    assert (closed.reason, closed.best, closed.candidates) == ("exhausted", "n001", 1)
    assert closed.win


def test_every_reason_is_said_once() -> None:
    answers = [no_candidate("first"), no_candidate("second"), no_candidate("first")]
    closed = Search(*answers, budget=3).closed()
    assert closed.reason == "nothing_to_try"
    assert closed.detail == "no candidate was made: first; second"


def test_candidates_that_are_all_wrong_were_made_and_counted() -> None:
    wrong = given.diagnosed(verdict=Verdict.runtime_error, summary="runtime error: ValueError: x")
    closed = Search(wrong, wrong, budget=2).closed()
    assert (closed.reason, closed.candidates) == ("budget", 2)
    assert closed.detail == (
        "no win found: none of 2 candidates was right, all for one reason: runtime error: ValueError: x"
    )
    closed = Search(wrong, given.diagnosed(verdict=Verdict.wrong_numbers, summary="y"), budget=2).closed()
    assert closed.detail == "no win found: none of 2 candidates was right"


def test_an_interrupted_session_counts_what_was_finished() -> None:
    search = Search(given.diagnosed(2.0))
    search.tell(StopRequested(reason="interrupted"))
    closed = search.closed()
    assert (closed.reason, closed.best, closed.candidates, closed.correct, closed.wins) == (
        "interrupted",
        "n001",
        1,
        1,
        1,
    )


def test_an_interrupted_session_without_a_finished_candidate_does_not_say_that_none_was_right() -> None:
    search = Search()
    search.tell(StopRequested(reason="interrupted"))
    assert search.closed().candidates == 0
    assert search.closed().detail == "no win found: it ended before a candidate was judged"


def test_a_search_without_a_right_candidate_says_what_may_help() -> None:
    search = Search(explains_losses=True, budget=2)
    for node in ("n001", "n002"):
        search.tell(given.diagnosed(0.0, Verdict.wrong_numbers), node)
    assert search.closed().detail.endswith(
        "; what may help: more candidates (--budget 4), another author (--author) or another shape in the problem"
    )


def test_a_session_of_an_older_version_goes_on_to_its_budget_and_counts_every_node() -> None:
    search = Search(*[no_candidate()] * 5, budget=5, failures_alike=0)
    closed = search.closed()
    assert (closed.reason, closed.candidates, closed.detail) == ("budget", 5, "no win found: no candidate was right")


@pytest.mark.parametrize(
    ("closer_diagnoses", "says"), [(True, "2 candidates, 2 correct"), (False, "`x`: `2` instead of `1`: 200.00x")]
)
def test_a_skill_counts_candidates_and_reads_nothing_from_noise(closer_diagnoses: bool, says: str) -> None:
    noise = Interval(median=2.0, low=0.01, high=9.0)
    opened = given.opened(closer_diagnoses=closer_diagnoses)
    graph = given.graph_with(
        ("n001", given.candidate(recipe={"x": 1})),
        ("n001", given.diagnosed(0.01, speedup=noise)),
        ("n002", given.candidate(recipe={"x": 2})),
        ("n002", given.diagnosed(2.0)),
        ("n003", no_candidate()),
        first=opened,
    )
    taught = lesson(opened, graph, "s-test1", SessionClosed(reason="budget"))
    assert taught is not None and says in taught.skill.text
    assert ("What mattered" in taught.skill.text) != closer_diagnoses
