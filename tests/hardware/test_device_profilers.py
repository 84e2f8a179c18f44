"""What the GPU's profilers print becomes one result; the shapes are those that the tools write."""

import json

import pytest
import torch

from kernelswarm.hardware.profilers import ncu, proton, trace
from kernelswarm.hardware.profilers.device import Profilers, merged
from kernelswarm.schemas import KernelProfile, decode, encode

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
HEADER = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "gpu__time_duration.sum", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct",
    "launch__registers_per_thread", STALL.format("long_scoreboard"),
    STALL.format("barrier"), STALL.format("long_scoreboard_not_issued"), "launch__func_cache_config",
)  # fmt: skip
UNITS = ("",) * 11 + ("ns", "%", "%", "%", "%", "%", "%", "register/thread", "inst", "inst", "inst", "")


def table(*rows: tuple[str, ...]) -> str:
    lines = [
        "==PROF== Connected to process 4711 (/usr/bin/python3.12)",
        '==PROF== Profiling "rows": 0%....100% - 9 passes',
    ]
    lines += [",".join(f'"{cell}"' for cell in row) for row in (HEADER, UNITS, *rows)]
    return "\n".join([*lines[:2], "==PROF== Disconnected from process 4711", *lines[2:]]) + "\n"


def row(name: str, time_ns: str, memory: str, stall: str = "12.5") -> tuple[str, ...]:
    place = ("0", "4711", "python3.12", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(8,192, 1, 1)", "0", "9.0")
    return (*place, time_ns, memory, "90.5", "31.25", "0", "97.5", "100", "32", stall, "0.5", "3", "CachePreferNone")


def test_a_table_of_nsight_compute_is_read():
    kernels = ncu.read_table(
        table(row("split", "2,000", "50"), row("rows", "63,488", "91.75"), row("split", "6000", "70"))
    )
    rows, split = kernels
    assert (rows.name, rows.time_us, rows.launches, rows.registers) == ("rows", pytest.approx(63.488), 1, 32)
    assert (rows.memory_percent, rows.dram_percent, rows.compute_percent) == (91.75, 90.5, 31.25)
    assert (rows.occupancy_percent, rows.occupancy_limit_percent, rows.tensor_percent) == (97.5, 100.0, 0.0)
    assert list(rows.stalls.items()) == [("long_scoreboard", 12.5), ("barrier", 0.5)]
    assert (split.launches, split.time_us, split.memory_percent) == (2, pytest.approx(8.0), pytest.approx(65.0))
    assert decode(encode(rows), KernelProfile) == rows


def test_what_a_gpu_does_not_give_is_missing_not_zero():
    (kernel,) = ncu.read_table(table(row("rows", "1000", "n/a")))
    assert kernel.memory_percent is None and kernel.dram_percent == 90.5


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "sandboxes such as gVisor"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.", "launched no kernel"),
        ("==ERROR== The application returned an error code (1).", "returned an error code"),
        ("", "printed none"),
    ],
)  # fmt: skip
def test_why_there_are_no_counters_is_one_sentence(output, said):
    assert ncu.read_table(output) == ()
    reason = ncu.why_not(output)
    assert said in reason and "\n" not in reason
    assert ncu.why_not(table(row("rows", "1", "2"))) == ""


def test_nsight_compute_leaves_the_clocks_alone():
    command = ncu.command("/opt/ncu", ["python", "x.py"])
    assert command[0] == "/opt/ncu" and command[-2:] == ["python", "x.py"]
    assert command[command.index("--clock-control") + 1] == "none"


def event(category: str, name: str, ts: float, dur: float, **args: object) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


def test_a_trace_tells_launches_and_gaps():
    events = [event("cpu_op", "aten::empty_like", 0.0, 900.0), {"ph": "M", "name": "process_name", "args": {}}]
    for start in (1000.0, 1100.0):
        events += [
            event("kernel", "rows", start, 40.0, **{"registers per thread": 48, "grid": [8192, 1, 1]}),
            event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", start + 50.0, 10.0),
            event("kernel", "rows", start + 55.0, 15.0, **{"registers per thread": 48}),
        ]
    found = trace.read_trace(json.dumps({"schemaVersion": 1, "traceEvents": events}), calls=2)
    assert (found.launches, found.busy_us) == (3, pytest.approx(60.0))
    assert found.gap_us == pytest.approx((10.0 + 30.0 + 10.0) / 2)
    rows, copy = found.kernels
    assert (rows.name, rows.launches, rows.time_us, rows.registers) == ("rows", 2, pytest.approx(55.0), 48)
    assert copy.time_us == pytest.approx(10.0) and found.sources == ("torch",)


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_what_is_no_trace_is_refused(text):
    with pytest.raises(ValueError, match="no trace"):
        trace.read_trace(text, calls=1)


def frame(name: str, cycles: float | None = None, children: tuple[dict, ...] = ()) -> dict:
    metrics = {} if cycles is None else {"cycles": cycles, "normalized_cycles": cycles / 2}
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def test_protons_tree_gives_shares_of_a_kernel():
    kernel = frame("rows", None, (frame("load", 300.0), frame("reduce", 100.0)))
    text = json.dumps([frame("ROOT", None, (kernel, frame("other", 5.0))), {"CUDA": {"0": {"arch": "90"}}}])
    assert proton.read_tree(text) == {"rows": {"load": 0.75, "reduce": 0.25}}


def test_only_a_file_with_scopes_is_worth_asking():
    assert proton.has_scopes('import triton.profiler.language as pl\npl.enter_scope("load")')
    assert not proton.has_scopes("import triton")


def test_counters_join_times_under_the_names_of_both_tools():
    timed = (KernelProfile(name="void at::native::reduce_kernel<512, 1>(float*)", time_us=10.0, launches=2),)
    counted = (KernelProfile(name="reduce_kernel", time_us=30.0, dram_percent=80.0),)
    (kernel,) = merged(timed, counted)
    assert (kernel.time_us, kernel.launches, kernel.dram_percent) == (10.0, 2, 80.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
async def test_where_nothing_can_be_profiled_the_reason_is_told(tmp_path):
    (tmp_path / "candidate.py").write_text("def kernel(x):\n    return x\n")
    found = await Profilers().profile(tmp_path, seconds=60.0)
    assert not found.kernels and not found.sources
    (reason,) = found.unavailable
    assert "torch.profiler gave nothing: " in reason and "CUDA" in reason
