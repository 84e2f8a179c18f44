"""Several authors: given their shares and what became of their nodes, when a node is planned, then one is chosen."""

from collections import Counter

import pytest

import given
from kernelswarm.agents.analyst.diagnose import diagnose
from kernelswarm.agents.planner.authors import BENCHED_AFTER
from kernelswarm.agents.planner.machine import decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    OUTSIDE,
    AuthorBenched,
    AuthorShare,
    Bottleneck,
    Finding,
    NodeDiagnosed,
    NodePlanned,
    SessionClosed,
    StopRequested,
    SynthesisFailed,
    Verdict,
    seal,
)

GENERATOR, MODEL, OTHER = (AuthorShare(name=n, share=s) for n, s in (("playbook", 1), ("anthropic", 2), ("openai", 1)))


def failed(reason: str = "no answer", **fields: bool) -> NodeDiagnosed:
    return NodeDiagnosed(
        verdict=Verdict.synthesis_failed,
        fitness=0.0,
        bottleneck=Bottleneck.fault,
        summary=reason,
        evidence=(Finding(name="backend", value="b", meaning=reason),),
        **fields,
    )


class Search:
    """A planner whose nodes are answered in the order of their planning, by author."""

    def __init__(self, *authors: AuthorShare, **opened: object) -> None:
        self.state, self.plans, self.closed = PlannerState(), dict[str, NodePlanned](), None
        self.benched: list[AuthorBenched] = []
        fields = {"authors": authors, "budget": 40, "failures_alike": 3, "policy_options": {"stall": 1000}}
        self.tell(given.opened(**{**fields, **opened}))

    def tell(self, event: object, node: str = "") -> None:
        for decision in decide(self.state, event, node):  # type: ignore[arg-type]
            if isinstance(decision.event, NodePlanned):
                self.plans[decision.node] = decision.event
            elif isinstance(decision.event, SessionClosed):
                self.closed = decision.event
            elif isinstance(decision.event, AuthorBenched):
                self.benched.append(decision.event)
            else:
                self.tell(given.diagnosed(1.5, confirmation=True), decision.node)

    def run(self, answers: dict[str, object]) -> SessionClosed:
        """Answer every plan with what ``answers`` has for its author (a diagnosis, or a function of how many)."""
        done = 0
        while self.closed is None:
            node, plan = list(self.plans.items())[done]
            done += 1
            answer = answers[plan.synthesizer]
            self.tell(answer(done) if callable(answer) else answer, node)
        return self.closed

    def counts(self) -> Counter[str]:
        return Counter(plan.synthesizer for plan in self.plans.values())


def good(number: int = 0) -> NodeDiagnosed:
    return given.diagnosed(1.5)


def test_nodes_go_to_authors_by_their_shares_and_interleaved() -> None:
    search = Search(GENERATOR, MODEL, OTHER)
    search.run({"playbook": good, "anthropic": good, "openai": good})
    assert search.counts() == {"playbook": 10, "anthropic": 20, "openai": 10}
    first = [plan.synthesizer for plan in search.plans.values()][:4]
    assert Counter(first) == {"playbook": 1, "anthropic": 2, "openai": 1}


def test_one_author_is_the_session_s_synthesizer_as_before() -> None:
    with_share = Search(AuthorShare(name="anthropic"), synthesizer="anthropic")
    without = Search(synthesizer="anthropic")
    assert with_share.plans == without.plans and set(with_share.counts()) == {"anthropic"}


def test_an_exhausted_author_gives_its_share_to_the_others() -> None:
    search = Search(GENERATOR, MODEL)
    closed = search.run({"playbook": failed("all tried", exhausted=True), "anthropic": good})
    assert closed.reason == "budget"
    assert closed.candidates == 40, "what failed costs no budget"
    assert search.counts()["playbook"] <= 4, "no more than were under way"


def test_all_exhausted_ends_the_search() -> None:
    out = failed("all tried", exhausted=True)
    assert Search(GENERATOR, MODEL).run({"playbook": out, "anthropic": out}).reason == "nothing_to_try"


def test_a_model_that_fails_twenty_times_in_a_row_is_benched_and_the_others_go_on() -> None:
    search = Search(GENERATOR, MODEL, budget=100)
    closed = search.run({"playbook": good, "anthropic": lambda n: failed(f"reason {n}", retryable=True)})
    assert closed.reason == "budget" and closed.candidates == 100
    assert BENCHED_AFTER == 20
    assert 20 <= search.counts()["anthropic"] <= 20 + 8


def test_a_success_begins_the_count_anew() -> None:
    search = Search(GENERATOR, MODEL, budget=100)
    search.run({"playbook": good, "anthropic": lambda n: good() if n % 5 == 0 else failed("slow", retryable=True)})
    assert search.counts()["anthropic"] > 60


@pytest.mark.parametrize(("retryable", "least", "most"), [(False, 3, 12), (True, 20, 28)])
def test_what_another_plan_would_not_change_benches_after_three(retryable: bool, least: int, most: int) -> None:
    search = Search(GENERATOR, MODEL, budget=60)
    search.run({"playbook": good, "anthropic": failed("the key is refused", retryable=retryable)})
    assert least <= search.counts()["anthropic"] <= most


@pytest.mark.parametrize("heeds_authors", [True, False])
def test_one_that_is_benched_is_said_once_and_in_the_result(heeds_authors: bool) -> None:
    search = Search(GENERATOR, OTHER, heeds_authors=heeds_authors)
    closed = search.run({"playbook": good, "openai": failed("the answer is empty")})
    assert len(search.benched) == heeds_authors
    sentence = "the author openai gets no nodes after 3 nodes in a row without a candidate: the answer is empty"
    assert [benched.sentence for benched in search.benched] == [sentence] * heeds_authors
    assert (sentence in closed.detail) == heeds_authors


@pytest.mark.parametrize("forgives_withdrawn", [True, False])
def test_tasks_that_are_taken_back_bench_nobody(forgives_withdrawn: bool) -> None:
    search = Search(GENERATOR, AuthorShare(name=OUTSIDE), heeds_authors=True, forgives_withdrawn=forgives_withdrawn)
    search.tell(good(), "n001")
    search.tell(StopRequested(reason="user"))
    closed = search.run({"playbook": good, OUTSIDE: failed("nobody handed in a file before the session ended")})
    assert search.counts()[OUTSIDE] >= 3 and bool(search.benched) is not forgives_withdrawn
    assert ("gets no nodes" in closed.detail) is not forgives_withdrawn


def test_one_with_nothing_new_is_said_but_is_no_part_of_the_result() -> None:
    search = Search(GENERATOR, MODEL, heeds_authors=True)
    closed = search.run({"playbook": failed("all tried", exhausted=True), "anthropic": good})
    assert [benched.sentence for benched in search.benched] == [
        "the author generator gets no nodes any more: all tried"
    ]
    assert "generator" not in closed.detail


@pytest.mark.parametrize(("trial_nodes", "planned"), [(3, 3), (0, 10)])
def test_an_only_author_that_cannot_work_is_not_paid_for_every_draft(trial_nodes: int, planned: int) -> None:
    search = Search(MODEL, synthesizer="anthropic", trial_nodes=trial_nodes)
    assert len(search.plans) == planned
    assert search.run({"anthropic": failed("broken calls")}).reason == "nothing_to_try"
    assert len(search.plans) == 3 if trial_nodes else len(search.plans) >= planned


def test_after_its_first_candidate_an_only_author_has_all_drafts() -> None:
    search = Search(MODEL, synthesizer="anthropic", trial_nodes=3)
    search.tell(failed("once"), "n001")
    assert len(search.plans) == 3
    search.tell(failed("another reason"), "n002")
    assert len(search.plans) == 4
    search.tell(good(), "n003")
    assert len(search.plans) >= 10


@pytest.mark.parametrize("authors", [(), (MODEL,), (GENERATOR, MODEL)])
def test_the_analyst_says_retryable_only_where_there_are_several_authors(authors: tuple[AuthorShare, ...]) -> None:
    graph = SearchGraph("s")
    opened = given.opened(authors=authors)
    envelope = seal(opened, session="s", pool="cpu", node="", cause="", agent="user", worker="u", at_ns=1)
    graph.apply(envelope, opened)
    event = SynthesisFailed(backend="anthropic", reason="slow", retryable=True)
    assert diagnose(graph, "n001", event).retryable is (len(authors) > 1)
