"""The analyst: given a profile or a fault, then a diagnosis with evidence and advice."""

import msgspec
import pytest

import given
from kernelswarm.agents.analyst import diagnose
from kernelswarm.schemas import (
    EQUAL_VALUES,
    OUTSIDE,
    AdviceAction,
    Bottleneck,
    CandidateProfiled,
    CompilationFailed,
    CompileReport,
    Config,
    Diagnostic,
    Evidence,
    Graph,
    Intent,
    Interval,
    MemoryOperator,
    Node,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    ProfilingFailed,
    ShapeTiming,
    SynthesisFailed,
    TensorMeta,
    Verdict,
    VerificationFailed,
    VerifyReport,
    Work,
)


def measured(report: ProfileReport, **opened: object) -> NodeDiagnosed:
    event = CandidateProfiled(report=report)
    return diagnose(given.graph_with(("n001", event), first=given.opened(**opened)), "n001", event)


def test_a_timed_node_is_worth_its_median_against_the_best_baseline() -> None:
    diagnosis = measured(given.profile(1.0, 2.0))
    assert (diagnosis.verdict, diagnosis.fitness, diagnosis.against) == (Verdict.correct, 2.0, "eager")
    assert diagnosis.speedup is not None and diagnosis.speedup.is_win
    assert "2.00x against eager" in diagnosis.summary


ALL = given.against_all(1.0, eager=5.5, compile=1.2, max_autotune=1.1)


@pytest.mark.parametrize(
    ("against", "median", "name"),
    [("best", 1.1, "max_autotune"), ("compile", 1.2, "compile"), ("eager", 5.5, "eager")],
)
def test_a_session_chooses_what_its_candidates_are_measured_against(against: str, median: float, name: str) -> None:
    ordinary = given.against_all(1.0, eager=3.0, compile=1.05, max_autotune=1.2)
    report = ProfileReport(verdict=Verdict.correct, isolation="x", timing=ALL, ordinary=ordinary)
    diagnosis = measured(report, against=against)
    assert (diagnosis.fitness, diagnosis.against) == (pytest.approx(median), name)
    counted = name if against != "best" else "compile"
    assert (diagnosis.ordinary, diagnosis.ordinary_against) == (ordinary.speedup[counted], counted)
    assert f"{ordinary.speedup[counted].median:.2f}x in ordinary processes" in diagnosis.summary


@pytest.mark.parametrize("closer_diagnoses", [True, False])
def test_a_sentence_with_two_speedups_names_both_baselines_where_they_differ(closer_diagnoses: bool) -> None:
    ordinary = given.against_all(1.0, eager=3.0, compile=1.05, max_autotune=1.2)
    report = ProfileReport(verdict=Verdict.correct, isolation="x", timing=ALL, ordinary=ordinary)
    summary = measured(report, closer_diagnoses=closer_diagnoses).summary
    assert summary.startswith("1.10x against max-autotune, 1.05x")
    assert ("1.05x against torch.compile in ordinary processes" in summary) == closer_diagnoses
    same = measured(report, closer_diagnoses=True, against="eager").summary
    assert same.startswith("5.50x against eager, 3.00x in ordinary processes")


def test_the_worst_of_several_shapes_is_the_judges_where_another_number_stands_beside() -> None:
    """The last sentence of a session names the worst in ordinary processes, which may be another one."""
    shapes = tuple(ShapeTiming(shape=name, weight=1.0, timing=ALL) for name in ("main", "decode"))
    several = msgspec.structs.replace(ALL, shapes=shapes)
    report = ProfileReport(verdict=Verdict.correct, isolation="x", timing=several, ordinary=several)
    for rules, by in (({}, ""), ({"names_worst_shapes": True}, " by the judge")):
        assert f"at shape main, the worst of 2{by})" in measured(report, **rules).summary
    alone = msgspec.structs.replace(report, ordinary=None)
    assert "the worst of 2)" in measured(alone, names_worst_shapes=True).summary


def test_a_baseline_that_is_missing_is_the_best_one() -> None:
    report = ProfileReport(verdict=Verdict.correct, isolation="x", timing=given.against_all(1.0, eager=5.5))
    assert measured(report, against="compile").against == "eager"


def test_why_ordinary_processes_were_not_timed_is_passed_on() -> None:
    report = msgspec.structs.replace(given.profile(), ordinary_missing="it does not import there")
    diagnosis = measured(report)
    assert (diagnosis.ordinary, diagnosis.ordinary_missing) == (None, "it does not import there")


def test_page_faults_are_named_with_their_number_and_come_first() -> None:
    diagnosis = measured(given.profile(2.0, 2.0, counters={"page_faults": 8192.0}))
    assert diagnosis.bottleneck is Bottleneck.memory_traffic
    assert given.actions(diagnosis)[0] is AdviceAction.avoid_page_faults
    assert any(finding.name == "page_faults" and "8192" in finding.value for finding in diagnosis.evidence)


@pytest.mark.parametrize(
    ("heeds_files", "huge_pages", "size", "advised"),
    [
        (True, "madvise", 1 << 16, False),
        (True, "never", 8 << 20, False),
        (True, "madvise", 8 << 20, True),
        (False, "madvise", 1 << 16, True),
    ],
)
def test_faults_that_every_new_output_costs_call_for_no_advice(
    heeds_files: bool, huge_pages: str, size: int, advised: bool
) -> None:
    diagnosis = measured(
        given.profile(2.0 * size / (8 << 20), counters={"page_faults": size / 4096}),
        heeds_files=heeds_files,
        hardware=given.hardware(huge_pages=huge_pages),
        facts=given.facts(work=Work(read_bytes=size, write_bytes=size, flops=size)),
    )
    assert (AdviceAction.avoid_page_faults in given.actions(diagnosis)) == advised
    (faults,) = [finding for finding in diagnosis.evidence if finding.name == "page_faults"]
    assert faults.meaning.endswith("as every new output's does") != advised


def test_near_the_floor_there_is_nothing_left() -> None:
    assert measured(given.profile(0.42)).bottleneck is Bottleneck.at_floor


def test_a_floor_that_a_kernel_passes_is_no_limit() -> None:
    diagnosis = measured(given.profile(0.15), closer_diagnoses=True)
    assert (diagnosis.bottleneck, diagnosis.roofline_fraction) == (Bottleneck.memory_traffic, pytest.approx(0.4 / 0.15))
    assert "roofline" not in diagnosis.summary
    (roofline,) = [finding for finding in diagnosis.evidence if finding.name == "roofline_fraction"]
    assert roofline.meaning.startswith("faster than the roofline's floor")
    assert measured(given.profile(0.15)).bottleneck is Bottleneck.at_floor, "older sessions"


def test_beside_others_at_work_nobody_knows_which_cores_stood_idle() -> None:
    report = given.profile(1.0, counters={"cpu_ms": 1.05})
    assert report.timing is not None
    busy = msgspec.structs.replace(report, timing=msgspec.structs.replace(report.timing, background_load=0.6))
    diagnosis = measured(busy, closer_diagnoses=True)
    assert AdviceAction.more_parallelism not in given.actions(diagnosis)
    assert "cores_used" not in {finding.name for finding in diagnosis.evidence}
    for other in (measured(report, closer_diagnoses=True), measured(busy)):
        assert given.actions(other)[0] is AdviceAction.more_parallelism


def test_idle_cores_are_a_lack_of_parallelism() -> None:
    diagnosis = measured(given.profile(1.0, counters={"cpu_ms": 1.05}))
    assert diagnosis.bottleneck is Bottleneck.parallelism
    assert given.actions(diagnosis)[0] is AdviceAction.more_parallelism


@pytest.mark.parametrize(("cautious", "names"), [(True, set()), (False, {"cores_used"})])
def test_nobody_uses_more_cores_than_there_are(cautious: bool, names: set[str]) -> None:
    diagnosis = measured(given.profile(1.0, counters={"cpu_ms": 51.0}), cautious=cautious)
    assert {finding.name for finding in diagnosis.evidence} & {"cores_used"} == names


def test_a_search_far_from_the_floor_is_bound_by_latency() -> None:
    facts = given.facts(operators=("aten.bucketize.Tensor",))
    assert given.actions(measured(given.profile(2.0), facts=facts))[0] is AdviceAction.faster_lookup
    (first, *_) = measured(given.profile(2.0), facts=facts, heeds_files=True).advice
    assert first.reason == "dependent loads of a search or gather (aten.bucketize.Tensor)"


@pytest.mark.parametrize(
    ("elements", "weighs", "is_limit"), [(512, True, False), (512, False, True), (1 << 16, True, True)]
)
def test_a_gather_of_few_elements_limits_nothing(elements: int, weighs: bool, is_limit: bool) -> None:
    gather = "aten.gather.default"
    picked = TensorMeta(shape=("s0",), dtype="float32", example=(elements,))
    graph = Graph(nodes=(Node(name="picked", op="call", target=gather, values=(picked,)),))
    facts = given.facts(operators=(gather,), graph=graph, work=Work(read_bytes=16 << 20, write_bytes=4, flops=1))
    diagnosis = measured(given.profile(2.0), facts=facts, weighs_lookups=weighs)
    assert (AdviceAction.faster_lookup in given.actions(diagnosis)) == is_limit


def test_a_call_of_microseconds_is_overhead() -> None:
    assert measured(given.profile(0.02, 0.05)).bottleneck in (Bottleneck.overhead, Bottleneck.at_floor)
    slow = given.profile(0.05, 0.05)
    assert slow.roofline is not None
    far = ProfileReport(verdict=Verdict.correct, isolation="x", timing=slow.timing)
    assert measured(far).bottleneck is Bottleneck.overhead


def test_what_a_tunable_did_is_evidence() -> None:
    plan = NodePlanned(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit)
    event = CandidateProfiled(report=given.profile(1.0, 3.0))
    graph = given.graph_with(
        ("n001", given.candidate(recipe={"huge_pages": False})),
        ("n001", given.diagnosed(1.5)),
        ("n002", plan),
        ("n002", given.candidate(recipe={"huge_pages": True})),
        ("n002", event),
    )
    (family,) = [finding for finding in diagnose(graph, "n002", event).evidence if finding.name == "parent"]
    assert family.value == "2.00x of n001"
    assert family.meaning == "huge_pages False → True helped"


@pytest.mark.parametrize(
    ("before", "after"), [({}, {"fusion": "all"}), ({"fusion": "all"}, {}), ({}, {})], ids=["child", "parent", "none"]
)
def test_a_file_that_no_config_made_is_another_source(before: Config, after: Config) -> None:
    event = CandidateProfiled(report=given.profile(1.0, 3.0))
    graph = given.graph_with(
        ("n001", given.candidate(recipe=before)),
        ("n001", given.diagnosed(1.5)),
        ("n002", NodePlanned(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit)),
        ("n002", given.candidate(recipe=after)),
        ("n002", event),
        first=given.opened(heeds_files=True),
    )
    (family,) = [finding for finding in diagnose(graph, "n002", event).evidence if finding.name == "parent"]
    assert family.meaning == "its source helped"


def noisy_profile() -> ProfileReport:
    """A candidate that stands at 10.77x, and may as well be slower than the baseline."""
    report = given.profile(1.0, 10.77)
    assert report.timing is not None
    noise = Interval(median=10.77, low=0.6, high=14.0)
    return msgspec.structs.replace(report, timing=msgspec.structs.replace(report.timing, speedup={"eager": noise}))


def test_a_speedup_that_is_too_noisy_counts_as_its_low_end_and_is_said_to_be() -> None:
    diagnosis = measured(noisy_profile(), cautious=True)
    assert (diagnosis.fitness, diagnosis.speedup) == (0.6, Interval(median=10.77, low=0.6, high=14.0))
    assert diagnosis.summary.startswith("too noisy (0.60 to 14.00) against eager")


def test_a_summary_does_not_show_the_ends_of_noise() -> None:
    diagnosis = measured(noisy_profile(), cautious=True, trusts_finalists=True)
    assert diagnosis.summary.startswith("too noisy to tell against eager")


def test_what_others_took_meanwhile_is_named_with_a_time_that_is_too_noisy() -> None:
    report = noisy_profile()
    assert report.timing is not None
    report = msgspec.structs.replace(report, timing=msgspec.structs.replace(report.timing, background_load=0.62))
    diagnosis = measured(report, cautious=True)
    assert "against eager beside a background load of 62%" in diagnosis.summary
    (load,) = [finding for finding in diagnosis.evidence if finding.name == "background_load"]
    assert load.value == "62% of the cores"


def test_older_sessions_went_by_the_median_however_noisy() -> None:
    diagnosis = measured(noisy_profile())
    assert diagnosis.fitness == 10.77 and diagnosis.summary.startswith("10.77x against eager")


@pytest.mark.parametrize("noisy", ["parent", "child"])
def test_of_a_time_that_is_too_noisy_nobody_says_what_a_change_did(noisy: str) -> None:
    event = CandidateProfiled(report=noisy_profile() if noisy == "child" else given.profile(1.0, 3.0))
    parent = {"speedup": Interval(median=1.5, low=0.1, high=9.0)} if noisy == "parent" else {}
    graph = given.graph_with(
        ("n001", given.candidate()),
        ("n001", given.diagnosed(1.5, **parent)),
        ("n002", NodePlanned(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit)),
        ("n002", given.candidate(recipe={"huge_pages": True})),
        ("n002", event),
        first=given.opened(cautious=True),
    )
    (family,) = [finding for finding in diagnose(graph, "n002", event).evidence if finding.name == "parent"]
    diagnosis = diagnose(graph, "n002", event)
    assert diagnosis.summary.endswith(f"limited by {diagnosis.bottleneck.in_words}")
    assert family.value == "too noisy beside n001" and family.meaning.startswith("the times do not tell whether")


def test_a_compiler_error_is_quoted_and_to_be_repaired() -> None:
    report = CompileReport(
        ok=False,
        language="cpp",
        compiler="g++ 12",
        diagnostics=(Diagnostic(severity="error", message="expected ';' before '}'", line=7),),
    )
    event = CompilationFailed(report=report)
    diagnosis = diagnose(given.graph_with(("n001", event)), "n001", event)
    assert (diagnosis.verdict, diagnosis.fitness, diagnosis.bottleneck) == (
        Verdict.compile_error,
        0.0,
        Bottleneck.fault,
    )
    assert "expected ';'" in diagnosis.summary and given.actions(diagnosis) == [AdviceAction.repair]


def test_wrong_numbers_ask_for_more_accurate_math_and_show_the_element() -> None:
    evidence = Evidence(message="error 0.3 above 1e-6", output=0, element=(3, 5), expected="1.0", got="0.7")
    event = VerificationFailed(
        report=VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    )
    diagnosis = diagnose(given.graph_with(("n001", event)), "n001", event)
    assert given.actions(diagnosis)[0] is AdviceAction.more_accurate_math
    assert any(finding.meaning == "0.7, not 1.0" for finding in diagnosis.evidence)


def test_equal_values_in_another_order_are_no_matter_of_accuracy() -> None:
    evidence = Evidence(message=f"{EQUAL_VALUES}; output 1[0] is 5, expected 0", output=1, expected="0", got="5")
    report = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    event = VerificationFailed(report=report)
    assert given.actions(diagnose(given.graph_with(("n001", event)), "n001", event))[0] is AdviceAction.repair


@pytest.mark.parametrize("verdict", [Verdict.timeout, Verdict.crash, Verdict.tampering])
def test_what_could_not_be_timed_is_worth_nothing(verdict: Verdict) -> None:
    event = ProfilingFailed(report=ProfileReport(verdict=verdict, isolation="process"), confirmation=True)
    diagnosis = diagnose(given.graph_with(("n001", event)), "n001", event)
    assert (diagnosis.verdict, diagnosis.fitness, diagnosis.confirmation) == (verdict, 0.0, True)


def test_an_exhausted_backend_is_passed_on() -> None:
    event = SynthesisFailed(backend="playbook", reason="nothing new", exhausted=True)
    diagnosis = diagnose(given.graph_with(("n001", event)), "n001", event)
    assert diagnosis.exhausted and diagnosis.verdict is Verdict.synthesis_failed


@pytest.mark.parametrize("closer_diagnoses", [True, False])
def test_advice_on_wrong_gradients_says_what_to_do(closer_diagnoses: bool) -> None:
    evidence = Evidence(message="the gradient of w is 0, not 1")
    event = VerificationFailed(
        report=VerifyReport(verdict=Verdict.wrong_gradients, isolation="process", evidence=evidence)
    )
    first = given.opened(closer_diagnoses=closer_diagnoses)
    diagnosis = diagnose(given.graph_with(("n001", event), first=first), "n001", event)
    assert diagnosis.summary == "wrong gradients: the gradient of w is 0, not 1"
    assert ("torch.no_grad()" in diagnosis.advice[0].reason) == closer_diagnoses


@pytest.mark.parametrize(("awaits_hand_ins", "says"), [(True, "nobody came"), (False, "outside made no candidate: n")])
def test_a_task_that_nobody_handed_in_is_nobodys_failure(awaits_hand_ins: bool, says: str) -> None:
    event = SynthesisFailed(backend=OUTSIDE, reason="nobody came")
    first = given.opened(awaits_hand_ins=awaits_hand_ins)
    assert diagnose(given.graph_with(("n001", event), first=first), "n001", event).summary.startswith(says)


@pytest.mark.parametrize(("trusts_finalists", "author"), [(True, "generator"), (False, "playbook")])
def test_the_generator_is_called_so(trusts_finalists: bool, author: str) -> None:
    event = SynthesisFailed(backend="playbook", reason="nothing to fuse")
    first = given.opened(trusts_finalists=trusts_finalists)
    diagnosis = diagnose(given.graph_with(("n001", event), first=first), "n001", event)
    assert diagnosis.summary == f"{author} made no candidate: nothing to fuse"


def test_the_same_events_give_the_same_diagnosis() -> None:
    assert measured(given.profile(1.0)) == measured(given.profile(1.0))


def test_a_processors_counters_are_findings() -> None:
    diagnosis = measured(given.profile(1.0, counters={"instructions": 5e6, "cycles": 1e7, "cpu_ms": 1.9}))
    (ipc,) = [entry for entry in diagnosis.evidence if entry.name == "instructions_per_cycle"]
    assert f"{ipc.value}: {ipc.meaning}".startswith("0.50: below 1")
    assert not [entry for entry in diagnosis.evidence if entry.name in ("launches", "counters", "dram_percent")]
