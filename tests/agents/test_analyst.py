"""The analyst: given a profile or a fault, then a diagnosis with evidence and advice."""

import msgspec
import pytest

import given
from kernelswarm.agents.analyst import diagnose
from kernelswarm.codegen.triton.mutations import GPU_MUTATIONS
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    EQUAL_VALUES,
    AdviceAction,
    Bottleneck,
    CandidateCompiled,
    CandidateProfiled,
    CompilationFailed,
    CompileReport,
    DeviceProfile,
    Diagnostic,
    Event,
    Evidence,
    Intent,
    Interval,
    KernelProfile,
    KernelResources,
    MemoryOperator,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    ProfilingFailed,
    Roofline,
    SessionOpened,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
    VerifyReport,
)


def graph_with(*events: tuple[str, Event], opened: SessionOpened | None = None) -> SearchGraph:
    graph = SearchGraph("s-test1")
    for node, event in [("", opened or given.opened()), *events]:
        graph.apply(given.envelope_of(event, node=node, cause=node), event)
    return graph


def measured(report: ProfileReport, **opened: object) -> NodeDiagnosed:
    event = CandidateProfiled(report=report)
    return diagnose(graph_with(("n001", event), opened=given.opened(**opened)), "n001", event)


def actions(diagnosis: NodeDiagnosed) -> list[AdviceAction]:
    return [advice.action for advice in diagnosis.advice]


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
    assert actions(diagnosis)[0] is AdviceAction.avoid_page_faults
    assert any(finding.name == "page_faults" and "8192" in finding.value for finding in diagnosis.evidence)


def test_near_the_floor_there_is_nothing_left() -> None:
    assert measured(given.profile(0.42)).bottleneck is Bottleneck.at_floor


def test_idle_cores_are_a_lack_of_parallelism() -> None:
    diagnosis = measured(given.profile(1.0, counters={"cpu_ms": 1.05}))
    assert diagnosis.bottleneck is Bottleneck.parallelism
    assert actions(diagnosis)[0] is AdviceAction.more_parallelism


@pytest.mark.parametrize(("cautious", "names"), [(True, set()), (False, {"cores_used"})])
def test_nobody_uses_more_cores_than_there_are(cautious: bool, names: set[str]) -> None:
    diagnosis = measured(given.profile(1.0, counters={"cpu_ms": 51.0}), cautious=cautious)
    assert {finding.name for finding in diagnosis.evidence} & {"cores_used"} == names


def test_a_search_far_from_the_floor_is_bound_by_latency() -> None:
    facts = given.facts(operators=("aten.bucketize.Tensor",))
    assert actions(measured(given.profile(2.0), facts=facts))[0] is AdviceAction.faster_lookup


def test_a_call_of_microseconds_is_overhead() -> None:
    assert measured(given.profile(0.02, 0.05)).bottleneck in (Bottleneck.overhead, Bottleneck.at_floor)
    slow = given.profile(0.05, 0.05)
    assert slow.roofline is not None
    far = ProfileReport(verdict=Verdict.correct, isolation="x", timing=slow.timing)
    assert measured(far).bottleneck is Bottleneck.overhead


def test_what_a_tunable_did_is_evidence() -> None:
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
    graph = graph_with(
        ("n001", given.candidate()),
        ("n001", given.diagnosed(1.5, **parent)),
        ("n002", NodePlanned(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit)),
        ("n002", given.candidate(recipe={"huge_pages": True})),
        ("n002", event),
        opened=given.opened(cautious=True),
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
    diagnosis = diagnose(graph_with(("n001", event)), "n001", event)
    assert (diagnosis.verdict, diagnosis.fitness, diagnosis.bottleneck) == (
        Verdict.compile_error,
        0.0,
        Bottleneck.fault,
    )
    assert "expected ';'" in diagnosis.summary and actions(diagnosis) == [AdviceAction.repair]


def test_wrong_numbers_ask_for_more_accurate_math_and_show_the_element() -> None:
    evidence = Evidence(message="error 0.3 above 1e-6", output=0, element=(3, 5), expected="1.0", got="0.7")
    event = VerificationFailed(
        report=VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    )
    diagnosis = diagnose(graph_with(("n001", event)), "n001", event)
    assert actions(diagnosis)[0] is AdviceAction.more_accurate_math
    assert any(finding.meaning == "0.7, not 1.0" for finding in diagnosis.evidence)


def test_equal_values_in_another_order_are_no_matter_of_accuracy() -> None:
    evidence = Evidence(message=f"{EQUAL_VALUES}; output 1[0] is 5, expected 0", output=1, expected="0", got="5")
    report = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    event = VerificationFailed(report=report)
    assert actions(diagnose(graph_with(("n001", event)), "n001", event))[0] is AdviceAction.repair


@pytest.mark.parametrize("verdict", [Verdict.timeout, Verdict.crash, Verdict.tampering])
def test_what_could_not_be_timed_is_worth_nothing(verdict: Verdict) -> None:
    event = ProfilingFailed(report=ProfileReport(verdict=verdict, isolation="process"), confirmation=True)
    diagnosis = diagnose(graph_with(("n001", event)), "n001", event)
    assert (diagnosis.verdict, diagnosis.fitness, diagnosis.confirmation) == (verdict, 0.0, True)


def test_an_exhausted_backend_is_passed_on() -> None:
    event = SynthesisFailed(backend="playbook", reason="nothing new", exhausted=True)
    diagnosis = diagnose(graph_with(("n001", event)), "n001", event)
    assert diagnosis.exhausted and diagnosis.verdict is Verdict.synthesis_failed


def test_the_same_events_give_the_same_diagnosis() -> None:
    assert measured(given.profile(1.0)) == measured(given.profile(1.0))


# Accelerators: profiles as Nsight Compute and torch.profiler give them, by the metrics that they document.

GPU = dict(
    pool=given.pool(name="h200", platform="nvidia", languages=("triton",)),
    hardware=given.hardware(device="NVIDIA H200", copy_gbps=4300.0),
)
ROWS = KernelProfile(
    name="rows", time_us=80.0, memory_percent=55.0, dram_percent=50.0, compute_percent=30.0, tensor_percent=0.0,
    occupancy_percent=90.0, occupancy_limit_percent=100.0, registers=32, blocks_per_multiprocessor=62.0,
)  # fmt: skip


def device(*kernels: KernelProfile, gap_us: float | None = 2.0, launches: int = 1, **changes: object) -> DeviceProfile:
    busy = sum(kernel.time_us for kernel in kernels)
    fields = dict(sources=("torch", "ncu"), kernels=kernels, launches=launches, busy_us=busy, gap_us=gap_us)
    return DeviceProfile(**(fields | changes))


def kernel(**changes: object) -> KernelProfile:
    return msgspec.structs.replace(ROWS, **changes)  # type: ignore[arg-type]


def timed(
    profile: DeviceProfile | None, *, fraction: float = 0.4, limit: str = "memory", median_ms: float = 0.1
) -> ProfileReport:
    roof = Roofline(floor_ms=fraction * median_ms, fraction=fraction, limit=limit)
    return msgspec.structs.replace(given.profile(median_ms, 0.2), roofline=roof, device=profile)


def on_gpu(profile: DeviceProfile | None, *, compiled: CompileReport | None = None, **how: object) -> NodeDiagnosed:
    event = CandidateProfiled(report=timed(profile, **how))  # type: ignore[arg-type]
    before = [("n001", CandidateCompiled(report=compiled))] if compiled else []
    return diagnose(graph_with(*before, ("n001", event), opened=given.opened(**GPU)), "n001", event)


def finding(diagnosis: NodeDiagnosed, name: str) -> str:
    (evidence,) = [entry for entry in diagnosis.evidence if entry.name == name]
    return f"{evidence.value}: {evidence.meaning}"


STALLED = {"long_scoreboard": 12.0, "barrier": 2.0, "selected": 1.0, "not_selected": 3.0}

CASES = {
    "needed bytes fill the memory": (
        on_gpu(device(kernel(memory_percent=92.0, dram_percent=91.0)), fraction=0.85),
        (Bottleneck.memory_bandwidth, AdviceAction.stream_stores),
    ),
    "bytes that are not needed fill it": (
        on_gpu(device(kernel(memory_percent=92.0, dram_percent=91.0)), fraction=0.3),
        (Bottleneck.memory_traffic, AdviceAction.reduce_traffic),
    ),
    "the matrix units are full": (
        on_gpu(device(kernel(compute_percent=40.0, tensor_percent=81.0)), limit="compute"),
        (Bottleneck.compute, AdviceAction.cheaper_math),
    ),
    "the special function unit is full": (
        on_gpu(device(kernel(compute_percent=85.0, pipes={"xu": 85.0, "fma": 20.0}))),
        (Bottleneck.compute, AdviceAction.cheaper_math),
    ),
    "warps wait for memory": (
        on_gpu(device(kernel(stalls=STALLED))),
        (Bottleneck.latency, AdviceAction.vectorize),
    ),
    "warps wait for each other": (
        on_gpu(device(kernel(stalls={"barrier": 9.0, "long_scoreboard": 1.0}))),
        (Bottleneck.latency, AdviceAction.vectorize),
    ),
    "fewer blocks than multiprocessors": (
        on_gpu(device(kernel(blocks_per_multiprocessor=0.48))),
        (Bottleneck.parallelism, AdviceAction.more_parallelism),
    ),
    "nothing runs between many kernels": (
        on_gpu(device(*(kernel(name=f"k{n}", time_us=6.0) for n in range(5)), gap_us=40.0, launches=5)),
        (Bottleneck.overhead, AdviceAction.less_overhead),
    ),
    "at the floor whatever the counters say": (
        on_gpu(device(kernel(stalls=STALLED)), fraction=0.95),
        (Bottleneck.at_floor, AdviceAction.stream_stores),
    ),
    "nobody looked": (on_gpu(None, fraction=0.7), (Bottleneck.memory_bandwidth, AdviceAction.stream_stores)),
    "no counters, few blocks": (
        on_gpu(device(KernelProfile(name="rows", time_us=80.0, blocks_per_multiprocessor=0.2))),
        (Bottleneck.parallelism, AdviceAction.more_parallelism),
    ),
    "no counters, a short call": (
        on_gpu(None, median_ms=0.008),
        (Bottleneck.overhead, AdviceAction.less_overhead),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_counters_of_a_device_name_what_limits_it(name: str) -> None:
    diagnosis, (named, first) = CASES[name]
    assert (diagnosis.bottleneck, actions(diagnosis)[0]) == (named, first)
    assert f"limited by {named.replace('_', ' ')}" in diagnosis.summary
    assert named.in_words and "_" not in named.in_words
    assert len(actions(diagnosis)) == len(set(actions(diagnosis)))


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised_for_a_device_is_something_that_its_generator_can_do(name: str) -> None:
    diagnosis, _ = CASES[name]
    assert all(GPU_MUTATIONS[action] for action in actions(diagnosis))


def test_evidence_names_metric_value_and_threshold() -> None:
    diagnosis = on_gpu(device(kernel(stalls=STALLED, dram_percent=71.0, memory_percent=72.0)))
    assert finding(diagnosis, "dram_percent").startswith("71 % of peak: device memory of rows")
    assert "at or above the 60 %" in finding(diagnosis, "dram_percent")
    assert "below the 60 %" in finding(diagnosis, "compute_percent")
    assert "67% of a warp's time is waiting for data from device memory" in finding(diagnosis, "stall_long_scoreboard")
    assert "at or above the 30 %" in finding(diagnosis, "stall_long_scoreboard")
    assert finding(diagnosis, "occupancy_percent").startswith("90 %: at or above the 50 %")
    assert "below the 20 % from which launching is the limit" in finding(diagnosis, "launch_gaps")
    assert "memory 72 %, arithmetic 30 % of peak" in diagnosis.summary


def test_spilled_registers_are_evidence_and_asked_to_be_fewer() -> None:
    spilling = KernelResources(name="rows", registers=255, spill_bytes=96, shared_bytes=0)
    idle = KernelResources(name="tail", registers=255, spill_bytes=8, shared_bytes=0)
    compiled = CompileReport(ok=True, language="triton", compiler="triton", kernels=(spilling, idle))
    diagnosis = on_gpu(device(kernel(), kernel(name="tail", time_us=1.0)), compiled=compiled)
    assert finding(diagnosis, "register_spills").startswith("96 bytes a thread: rows, which takes 99% of the time")
    assert actions(diagnosis)[0] is AdviceAction.more_parallelism
    without = on_gpu(None, compiled=compiled)
    assert sum(entry.name == "register_spills" for entry in without.evidence) == 2


def test_without_counters_it_says_so_and_why() -> None:
    why = "no counters of the GPU: the driver keeps its counters to administrators"
    seen = KernelProfile(name="rows", time_us=80.0, occupancy_limit_percent=25.0, registers=168)
    diagnosis = on_gpu(device(seen, sources=("torch",), unavailable=(why,)))
    assert finding(diagnosis, "counters") == f"none: {why}"
    assert "168 registers a thread allow: below the 50 %" in finding(diagnosis, "occupancy_limit_percent")
    assert "without counters" in diagnosis.summary


def test_a_confirmation_rests_on_the_look_at_the_first_timing() -> None:
    first = CandidateProfiled(report=timed(device(kernel(stalls=STALLED))))
    again = CandidateProfiled(report=timed(None), confirmation=True)
    graph = graph_with(("n001", first), ("n001", again), opened=given.opened(**GPU))
    assert diagnose(graph, "n001", again).bottleneck is Bottleneck.latency


def test_a_processor_is_diagnosed_as_before_and_its_counters_are_findings_alike() -> None:
    diagnosis = measured(given.profile(1.0, counters={"instructions": 5e6, "cycles": 1e7, "cpu_ms": 1.9}))
    assert finding(diagnosis, "instructions_per_cycle").startswith("0.50: below 1")
    assert not [entry for entry in diagnosis.evidence if entry.name in ("launches", "counters", "dram_percent")]
