"""The analyst: given a profile or a fault, then a diagnosis with evidence and advice."""

import pytest

import given
from kernelswarm.agents.analyst import diagnose
from kernelswarm.agents.graph import SearchGraph
from kernelswarm.schemas import (
    AdviceAction,
    Bottleneck,
    CandidateProfiled,
    CompilationFailed,
    CompileReport,
    Diagnostic,
    Event,
    Evidence,
    Intent,
    MemoryOperator,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    ProfilingFailed,
    SessionOpened,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
    VerifyReport,
)


def graph_with(*events: tuple[str, Event], opened: SessionOpened | None = None) -> SearchGraph:
    graph = SearchGraph("s-test1")
    for node, event in [("", opened or given.opened()), *events]:
        graph.apply(given.said(event, node=node, cause=node), event)
    return graph


def measured(report: ProfileReport, **opened: object) -> NodeDiagnosed:
    event = CandidateProfiled(report=report)
    return diagnose(graph_with(("n001", event), opened=given.opened(**opened)), "n001", event)


def actions(diagnosis: NodeDiagnosed) -> list[AdviceAction]:
    return [advice.action for advice in diagnosis.advice]


def test_a_timed_node_is_worth_its_median_against_the_best_baseline() -> None:
    told = measured(given.profile(1.0, 2.0))
    assert (told.verdict, told.fitness, told.against) == (Verdict.correct, 2.0, "eager")
    assert told.speedup is not None and told.speedup.is_win
    assert "2.00x against eager" in told.summary


def test_page_faults_are_named_with_their_number_and_come_first() -> None:
    told = measured(given.profile(2.0, 2.0, counters={"page_faults": 8192.0}))
    assert told.bottleneck is Bottleneck.memory_traffic
    assert actions(told)[0] is AdviceAction.avoid_page_faults
    assert any(finding.name == "page_faults" and "8192" in finding.value for finding in told.evidence)


def test_near_the_floor_there_is_nothing_left() -> None:
    assert measured(given.profile(0.42)).bottleneck is Bottleneck.at_floor


def test_idle_cores_are_a_lack_of_parallelism() -> None:
    told = measured(given.profile(1.0, counters={"cpu_ms": 1.05}))
    assert told.bottleneck is Bottleneck.parallelism
    assert actions(told)[0] is AdviceAction.more_parallelism


def test_a_search_far_from_the_floor_is_bound_by_latency() -> None:
    facts = given.facts(operators=("aten.bucketize.Tensor",))
    assert actions(measured(given.profile(2.0), facts=facts))[0] is AdviceAction.faster_lookup


def test_a_call_of_microseconds_is_overhead() -> None:
    assert measured(given.profile(0.02, 0.05)).bottleneck in (Bottleneck.overhead, Bottleneck.at_floor)
    slow = given.profile(0.05, 0.05)
    assert slow.roofline is not None
    far = ProfileReport(verdict=Verdict.correct, isolation="x", timing=slow.timing)
    assert measured(far).bottleneck is Bottleneck.overhead


def test_what_a_knob_did_is_evidence() -> None:
    plan = NodePlanned(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit)
    event = CandidateProfiled(report=given.profile(1.0, 3.0))
    graph = graph_with(
        ("n001", given.candidate(recipe={"huge_pages": False})),
        ("n001", given.diagnosed(1.5)),
        ("n002", plan),
        ("n002", given.candidate(recipe={"huge_pages": True})),
        ("n002", event),
    )
    (family,) = [finding for finding in diagnose(graph, "n002", event).evidence if finding.name == "parent"]
    assert family.value == "2.00x of n001"
    assert family.meaning == "huge_pages False → True helped"


def test_a_compiler_error_is_quoted_and_to_be_repaired() -> None:
    report = CompileReport(
        ok=False,
        language="cpp",
        compiler="g++ 12",
        diagnostics=(Diagnostic(severity="error", message="expected ';' before '}'", line=7),),
    )
    event = CompilationFailed(report=report)
    told = diagnose(graph_with(("n001", event)), "n001", event)
    assert (told.verdict, told.fitness, told.bottleneck) == (Verdict.compile_error, 0.0, Bottleneck.fault)
    assert "expected ';'" in told.summary and actions(told) == [AdviceAction.repair]


def test_wrong_numbers_ask_for_more_accurate_math_and_show_the_element() -> None:
    evidence = Evidence(message="error 0.3 above 1e-6", output=0, element=(3, 5), expected="1.0", got="0.7")
    event = VerificationFailed(
        report=VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    )
    told = diagnose(graph_with(("n001", event)), "n001", event)
    assert actions(told)[0] is AdviceAction.more_accurate_math
    assert any(finding.meaning == "0.7, not 1.0" for finding in told.evidence)


@pytest.mark.parametrize("verdict", [Verdict.timeout, Verdict.crash, Verdict.tampering])
def test_what_could_not_be_timed_is_worth_nothing(verdict: Verdict) -> None:
    event = ProfilingFailed(report=ProfileReport(verdict=verdict, isolation="process"), confirmation=True)
    told = diagnose(graph_with(("n001", event)), "n001", event)
    assert (told.verdict, told.fitness, told.confirmation) == (verdict, 0.0, True)


def test_an_exhausted_backend_is_passed_on() -> None:
    event = SynthesisFailed(backend="playbook", reason="nothing new", exhausted=True)
    told = diagnose(graph_with(("n001", event)), "n001", event)
    assert told.exhausted and told.verdict is Verdict.synthesis_failed


def test_the_same_events_give_the_same_diagnosis() -> None:
    assert measured(given.profile(1.0)) == measured(given.profile(1.0))
