"""The analyst on accelerators: profiles as Nsight Compute and torch.profiler give them, by the metrics they name."""

import msgspec
import pytest

import given
from kernelswarm.agents.analyst import diagnose
from kernelswarm.codegen.triton.mutations import GPU_MUTATIONS
from kernelswarm.schemas import (
    AdviceAction,
    Bottleneck,
    CandidateCompiled,
    CandidateProfiled,
    CompileReport,
    DeviceProfile,
    KernelProfile,
    KernelResources,
    NodeDiagnosed,
    ProfileReport,
    Roofline,
)

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


def on_gpu(
    profile: DeviceProfile | None,
    *,
    compiled: CompileReport | None = None,
    opened: dict[str, object] | None = None,
    **how: object,
) -> NodeDiagnosed:
    event = CandidateProfiled(report=timed(profile, **how))  # type: ignore[arg-type]
    before = [("n001", CandidateCompiled(report=compiled))] if compiled else []
    return diagnose(
        given.graph_with(*before, ("n001", event), first=given.opened(**GPU, **(opened or {}))), "n001", event
    )


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


@pytest.mark.parametrize(("reads", "named"), [(False, Bottleneck.overhead), (True, Bottleneck.latency)])
def test_gaps_of_a_replayed_call_are_the_device_s_not_the_host_s_under_a_profiler(
    reads: bool, named: Bottleneck
) -> None:
    """A scan of an outside author: kernels of 79.5 us, 36 us between them under the profiler, 78.7 us a replay."""
    look = device(kernel(name="outputs", time_us=60.3), kernel(name="segments", time_us=19.2), gap_us=36.0, launches=2)
    report = timed(look, fraction=0.53, median_ms=0.0787)
    assert report.timing is not None
    report = msgspec.structs.replace(report, timing=msgspec.structs.replace(report.timing, measure="graph"))
    event = CandidateProfiled(report=report)
    opened = given.opened(**GPU, reads_device_time=reads)
    diagnosis = diagnose(given.graph_with(("n001", event), first=opened), "n001", event)
    assert diagnosis.bottleneck is named
    assert ("segments 19.2 us" in finding(diagnosis, "launches")) is reads


def test_launches_that_are_listed_for_other_sizes_are_none_of_a_call() -> None:
    entries = CompileReport(
        ok=True,
        language="triton",
        compiler="triton",
        kernels=(KernelResources(name="rows", registers=32, spill_bytes=0, shared_bytes=0),) * 9,
    )
    advice = on_gpu(None, compiled=entries, fraction=0.4, opened={"reads_device_time": True}).advice
    assert not any("9 launches" in entry.reason for entry in advice)


@pytest.mark.parametrize("name", CASES)
def test_counters_of_a_device_name_what_limits_it(name: str) -> None:
    diagnosis, (named, first) = CASES[name]
    assert (diagnosis.bottleneck, given.actions(diagnosis)[0]) == (named, first)
    assert f"limited by {named.replace('_', ' ')}" in diagnosis.summary
    assert named.in_words and "_" not in named.in_words
    assert len(given.actions(diagnosis)) == len(set(given.actions(diagnosis)))


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised_for_a_device_is_something_that_its_generator_can_do(name: str) -> None:
    diagnosis, _ = CASES[name]
    assert all(GPU_MUTATIONS[action] for action in given.actions(diagnosis))


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
    assert given.actions(diagnosis)[0] is AdviceAction.more_parallelism
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
    graph = given.graph_with(("n001", first), ("n001", again), first=given.opened(**GPU))
    assert diagnose(graph, "n001", again).bottleneck is Bottleneck.latency


@pytest.mark.parametrize(("operator", "advised"), [("aten.gather.default", True), ("aten.mul.Tensor", False)])
def test_look_ups_are_advised_where_the_problem_has_some(operator: str, advised: bool) -> None:
    opened = {"heeds_files": True, "facts": given.facts(operators=(operator,))}
    diagnosis = on_gpu(device(kernel(stalls=STALLED)), opened=opened)
    assert (AdviceAction.faster_lookup in given.actions(diagnosis)) == advised
