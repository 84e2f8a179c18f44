"""Outside authors beside others: nobody waits for them, and nobody uses their share up."""

from collections import Counter

import pytest
from planner_ring import Ring

import given
from kernelswarm.agents.planner.machine import Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.schemas import (
    DEADLINE,
    OUTSIDE,
    AuthorShare,
    ConfirmationPlanned,
    Event,
    NodeDiagnosed,
    NodePlanned,
    SessionClosed,
    StopRequested,
    Verdict,
)

AUTHORS = (AuthorShare(name="playbook"), AuthorShare(name=OUTSIDE))


def plans(decisions: list[Decision]) -> list[tuple[str, str]]:
    """Nodes that were planned, and who is to write them."""
    return [(d.node, d.event.synthesizer) for d in decisions if isinstance(d.event, NodePlanned)]


def test_the_generator_goes_on_while_tasks_wait_and_leaves_them_their_share() -> None:
    state, written = PlannerState(), Counter()
    options = {"drafts": 6, "width": 6, "stall": 100}
    opened = given.opened(authors=AUTHORS, synthesizer="playbook:1,outside:1", budget=20, policy_options=options)
    tasks: list[str] = []
    waiting = plans(decide(state, opened))
    while waiting:
        node, author = waiting.pop(0)
        written[author] += 1
        if author == OUTSIDE:
            tasks.append(node)  # nobody hands anything in
        else:
            waiting += plans(decide(state, given.diagnosed(1.1), node))
    assert written == {"playbook": 10, OUTSIDE: 3} and not state.closed

    while tasks:
        for node, author in plans(decide(state, given.diagnosed(1.1), tasks.pop(0))):
            assert author == OUTSIDE, "the rest of the budget is theirs"
            written[author] += 1
            tasks.append(node)
    assert written == {"playbook": 10, OUTSIDE: 10}
    assert state.finishing == "budget"


@pytest.mark.parametrize("budget", [1, 2, 4, 8, 9, 40])
@pytest.mark.parametrize("opens_tasks", [True, False])
def test_each_verdict_opens_the_next_task_at_any_budget(budget: int, opens_tasks: bool) -> None:
    options = {"drafts": 3, "width": 3}  # as sessions/concurrency.py has it for outside authors
    ring = Ring(
        synthesizer=OUTSIDE, budget=budget, awaits_verdicts=True, opens_tasks=opens_tasks, policy_options=options
    )
    assert len(ring.plans()) == min(3, budget)
    opened = plans(ring.tell(given.diagnosed(1.1), "n001"))
    is_open = budget > 3 and (opens_tasks or budget >= 9)
    assert opened == ([("n004", OUTSIDE)] if is_open else []), "two agents hold n002 and n003 for half an hour"


@pytest.mark.parametrize("authors", [(), AUTHORS], ids=["alone", "shared"])
@pytest.mark.parametrize("opens_tasks", [True, False])
def test_improvements_of_outside_authors_start_from_the_best(
    authors: tuple[AuthorShare, ...], opens_tasks: bool
) -> None:
    synthesizer = "playbook:1,outside:1" if authors else OUTSIDE
    options = {"drafts": 4, "doubt": 1.0, "stall": 100}
    ring = Ring(synthesizer=synthesizer, authors=authors, budget=40, policy_options=options, opens_tasks=opens_tasks)
    drafts, parents = [node for node, _ in ring.plans()], {}
    for index, node in enumerate(drafts):
        for decision in ring.tell(given.diagnosed(9.0 if index == 1 else 0.01), node):
            if isinstance(decision.event, NodePlanned) and decision.event.parent:
                parents.setdefault(decision.event.synthesizer, set()).add(decision.event.parent)
    for _ in range(8):
        for decision in ring.tell(given.diagnosed(0.01), sorted(ring.state.in_flight)[0]):
            if isinstance(decision.event, NodePlanned):
                parents.setdefault(decision.event.synthesizer, set()).add(decision.event.parent)
    assert (parents[OUTSIDE] == {"n002"}) == opens_tasks
    assert not authors or parents["playbook"] != {"n002"}, "the generator has its doubts"


NOBODY = given.diagnosed(verdict=Verdict.synthesis_failed)
GOALS = {
    "target": ({"target": 2.0}, given.diagnosed(2.5)),
    "floor": ({}, given.diagnosed(2.5, roofline_fraction=0.99)),
}


def kinds(decisions: list[Decision]) -> list[tuple[type[Event], str]]:
    return [(type(decision.event), decision.node) for decision in decisions]


@pytest.mark.parametrize("reason", GOALS)
def test_a_file_that_was_handed_in_is_judged_before_the_session_ends(reason: str) -> None:
    options, enough = GOALS[reason]
    ring = Ring(synthesizer=OUTSIDE, budget=3, awaits_hand_ins=True, closer_diagnoses=True, **options)
    (stop,) = ring.tell(enough, "n001")
    assert stop.event == StopRequested(reason=reason), "what nobody holds is withdrawn"
    assert ring.tell(stop.event) == [] == ring.tell(NOBODY, "n002")
    confirmations = ring.tell(given.diagnosed(3.0), "n003")
    assert kinds(confirmations) == [(ConfirmationPlanned, "n003"), (ConfirmationPlanned, "n001")]
    ring.tell(given.diagnosed(3.0, confirmation=True), "n003")
    (closing,) = ring.tell(given.diagnosed(2.5, confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.reason, closing.event.best) == (reason, "n003")


@pytest.mark.parametrize("awaits_hand_ins", [True, False])
def test_a_stall_is_one_of_outside_authors_where_they_have_a_share_and_withdraws_no_task(awaits_hand_ins: bool) -> None:
    ring = Ring(
        synthesizer="playbook:1,outside:1",
        authors=AUTHORS,
        budget=20,
        policy_options={"drafts": 4, "width": 4, "stall": 3},
        awaits_hand_ins=awaits_hand_ins,
    )

    def under_way(author: str) -> list[str]:
        return sorted(node for node in ring.state.in_flight if ring.state.nodes[node].plan.synthesizer == author)

    while under_way("playbook"):
        ring.tell(given.diagnosed(1.0), under_way("playbook")[0])
    assert ring.state.finishing == ("" if awaits_hand_ins else "stall")
    if awaits_hand_ins:
        for _ in range(3):
            ring.tell(given.diagnosed(1.0), under_way(OUTSIDE)[0])
    assert ring.state.finishing == "stall" and under_way(OUTSIDE)
    assert not any(isinstance(decision.event, StopRequested) for decision in ring.decisions)


def test_older_sessions_closed_as_soon_as_their_aim_was_reached() -> None:
    ring = Ring(synthesizer=OUTSIDE, budget=3, target=2.0)
    assert kinds(ring.tell(given.diagnosed(2.5), "n001")) == [(ConfirmationPlanned, "n001")]


def test_a_session_that_awaits_hand_ins_does_not_await_other_authors() -> None:
    ring = Ring(budget=3, target=2.0, awaits_hand_ins=True)
    assert kinds(ring.tell(given.diagnosed(2.5), "n001")) == [(ConfirmationPlanned, "n001")]


@pytest.mark.parametrize(
    ("late", "end"),
    [(given.diagnosed(1.1), "minutes"), (StopRequested(reason=DEADLINE), "minutes")],
    ids=["judged", "out of time"],
)
def test_once_its_minutes_are_nearly_over_the_best_is_confirmed_and_what_is_judged_awaited(
    late: NodeDiagnosed | StopRequested, end: str
) -> None:
    ring = Ring(synthesizer=OUTSIDE, budget=2, awaits_hand_ins=True, hopeless_below=0.9, minutes=5.0, reserve=1.0)
    ring.tell(given.diagnosed(1.5), "n001")
    assert kinds(ring.tell(StopRequested(reason="minutes"))) == [(ConfirmationPlanned, "n001")]
    assert ring.tell(given.diagnosed(1.5, confirmation=True), "n001") == [], "the file for n002 is being judged"
    (closing,) = ring.tell(late, "n002" if isinstance(late, NodeDiagnosed) else "")
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.reason, closing.event.best, closing.event.win) == (end, "n001", True)


def test_a_file_that_is_faster_than_the_win_is_confirmed_while_time_is_left() -> None:
    ring = Ring(synthesizer=OUTSIDE, budget=2, awaits_hand_ins=True, hopeless_below=0.9, minutes=5.0, reserve=1.0)
    ring.tell(given.diagnosed(1.5), "n001")
    ring.tell(StopRequested(reason="minutes"))
    ring.tell(given.diagnosed(1.5, confirmation=True), "n001")
    assert kinds(ring.tell(given.diagnosed(3.0), "n002")) == [(ConfirmationPlanned, "n002")]
    (closing,) = ring.tell(given.diagnosed(2.9, confirmation=True), "n002")
    assert isinstance(closing.event, SessionClosed) and closing.event.best == "n002"
