"""Which candidates are looked into: given what was recorded, then a choice that anybody can make again."""

import msgspec

import given
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.graph.worth_profiling import SHARE, seen, worth_a_look
from kernelswarm.schemas import (
    CandidateProfiled,
    CandidateVerified,
    DeviceProfile,
    Event,
    Intent,
    MemoryOperator,
    NodePlanned,
    ProfileReport,
    Verdict,
    VerifyReport,
)


def graph_with(*events: tuple[str, Event]) -> SearchGraph:
    graph = SearchGraph("s-test1")
    for node, event in [("", given.opened()), *events]:
        graph.apply(given.envelope_of(event, node=node, cause=node), event)
    return graph


def report(speedup: float = 2.0, *, seconds: float = 1.0, looked: float | None = None) -> ProfileReport:
    seen = None
    if looked is not None:
        seen = DeviceProfile(sources=("torch",), kernels=(), launches=1, busy_us=1.0, seconds=looked)
    return msgspec.structs.replace(given.profile(1.0, speedup), seconds=seconds, device=seen)


def planned(parent: str = "") -> NodePlanned:
    return NodePlanned(parent=parent, intent=Intent.improve, memory=MemoryOperator.inherit)


def evaluated(node: str, speedup: float, timed: ProfileReport) -> list[tuple[str, Event]]:
    return [(node, planned()), (node, CandidateProfiled(report=timed)), (node, given.diagnosed(speedup))]


def test_the_first_correct_candidate_is_looked_into() -> None:
    assert worth_a_look(graph_with(("n001", planned())), "n001", report(), finalist=False)


def test_a_session_may_do_without_looking() -> None:
    graph = SearchGraph("s-test1")
    for node, event in (("", given.opened(policy_options={"looks": 0})), ("n001", planned())):
        graph.apply(given.envelope_of(event, node=node, cause=node), event)
    assert not worth_a_look(graph, "n001", report(), finalist=False)
    assert not worth_a_look(graph, "n001", report(), finalist=True)


def test_one_that_is_wrong_is_not() -> None:
    wrong = ProfileReport(verdict=Verdict.wrong_numbers, isolation="process")
    assert not worth_a_look(graph_with(("n001", planned())), "n001", wrong, finalist=True)


def test_looking_takes_its_share_of_the_time_and_no_more() -> None:
    looked = evaluated("n001", 2.0, report(looked=4.0))

    def others(count: int) -> list[tuple[str, Event]]:
        return [entry for n in range(count) for entry in evaluated(f"n1{n:02d}", 1.0, report())]

    enough = round(4.0 / SHARE) - 2
    draft = ("n900", planned())
    assert not worth_a_look(graph_with(*looked, *others(enough - 1), draft), "n900", report(), finalist=False)
    assert worth_a_look(graph_with(*looked, *others(enough), draft), "n900", report(), finalist=False)


def verified(count: int, parent: str = "") -> list[tuple[str, Event]]:
    """Nodes that wait to be timed."""
    report = VerifyReport(verdict=Verdict.correct, isolation="process")
    names = [f"n5{number:02d}" for number in range(count)]
    return [entry for name in names for entry in ((name, planned(parent)), (name, CandidateVerified(report=report)))]


def test_of_the_first_drafts_one_is_looked_into_although_nobody_knows_yet_what_it_costs() -> None:
    drafts = verified(4)
    first, *others = ("n500", "n501", "n502", "n503")
    assert worth_a_look(graph_with(*drafts[:2]), first, report(), finalist=False)
    for number, name in enumerate(others, 2):
        assert not worth_a_look(graph_with(*drafts[: 2 * number]), name, report(), finalist=False)
    assert worth_a_look(graph_with(*drafts), others[-1], report(), finalist=True)


def test_those_that_wait_count_at_the_price_of_the_dearest_look_and_children_by_how_many_were_looked_into() -> None:
    """40 s of timing allow for 4 s of looks: 2 s are taken, a draft that waits may take 2 s more, two too many."""
    past = [
        *evaluated("n001", 2.0, report(looked=2.0)),
        *(entry for n in range(38) for entry in evaluated(f"n1{n:02d}", 1.0, report())),
    ]
    for waiting, affordable in ((verified(1), True), (verified(2), False), (verified(30, "n001"), True)):
        graph = graph_with(*past, *waiting, ("n900", planned()))
        assert worth_a_look(graph, "n900", report(), finalist=False) is affordable


def test_a_child_is_worth_it_if_its_interval_lies_above_its_parents_median() -> None:
    parent = evaluated("n001", 2.0, report(2.0))
    graph = graph_with(*parent, ("n002", planned("n001")))
    assert worth_a_look(graph, "n002", report(2.2), finalist=False)
    assert not worth_a_look(graph, "n002", report(2.02), finalist=False)


def test_a_finalist_is_always_looked_into_but_once() -> None:
    expensive = evaluated("n001", 2.0, report(looked=100.0))
    graph = graph_with(*expensive, *evaluated("n002", 1.9, report(1.9)))
    assert worth_a_look(graph, "n002", report(1.9), finalist=True)
    assert not worth_a_look(graph, "n001", report(2.0), finalist=True)
    assert seen(graph.nodes["n001"]) is not None and seen(graph.nodes["n002"]) is None


def test_the_choice_is_the_same_for_the_same_events() -> None:
    events = [*evaluated("n001", 2.0, report(looked=4.0)), ("n002", planned())]
    first, second = (worth_a_look(graph_with(*events), "n002", report(), finalist=False) for _ in range(2))
    assert first is second is False


def test_a_finalist_is_looked_into_unless_another_was_faster_when_confirmed() -> None:
    confirmed = ("n001", CandidateProfiled(report=report(2.0), confirmation=True))
    graph = graph_with(*evaluated("n001", 1.9, report(1.9)), *evaluated("n002", 2.5, report(2.5)), confirmed)
    assert worth_a_look(graph, "n002", report(2.1), finalist=True)
    assert not worth_a_look(graph, "n002", report(1.9), finalist=True)
