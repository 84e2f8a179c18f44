"""What the GPU's profilers print becomes one result; the shapes are those that the tools write."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from kernelswarm.hardware.checks import Status
from kernelswarm.hardware.gpu_doctor import profiler_checks
from kernelswarm.hardware.harness.inspection import PROGRAM
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.profilers import ncu, proton, trace
from kernelswarm.hardware.profilers.accelerator import PROBE, Profilers
from kernelswarm.hardware.profilers.reading import NOTHING, merged, put_together
from kernelswarm.hardware.profilers.standby import NothingSeen, Setting, Standby
from kernelswarm.schemas import DeviceProfile, KernelProfile, Pool, decode, encode

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
HEADER = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "gpu__time_duration.sum", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct",
    "launch__registers_per_thread", STALL.format("long_scoreboard"),
    STALL.format("barrier"), STALL.format("long_scoreboard_not_issued"), "launch__func_cache_config",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
)  # fmt: skip
UNITS = ("",) * 11 + ("ns", "%", "%", "%", "%", "%", "%", "register/thread", "inst", "inst", "inst", "", "%", "%")


def table(*rows: tuple[str, ...]) -> str:
    """What Nsight Compute writes of these launches, after the one that warms it up."""
    lines = [
        "==PROF== Connected to process 4711 (/usr/bin/python3.12)",
        '==PROF== Profiling "rows": 0%....100% - 9 passes',
    ]
    lines += [",".join(f'"{cell}"' for cell in line) for line in (HEADER, UNITS, row("fill", "9", "9"), *rows)]
    return "\n".join([*lines[:2], "==PROF== Disconnected from process 4711", *lines[2:]]) + "\n"


def row(name: str, time_ns: str, memory: str, stall: str = "12.5") -> tuple[str, ...]:
    place = ("0", "4711", "python3.12", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(8,192, 1, 1)", "0", "9.0")
    return (
        *place,
        time_ns,
        memory,
        "90.5",
        "31.25",
        "0",
        "97.5",
        "100",
        "32",
        stall,
        "0.5",
        "3",
        "CachePreferNone",
        "12",
        "40",
    )


def test_a_table_of_nsight_compute_is_read():
    kernels = ncu.read_table(
        table(row("split", "2,000", "50"), row("rows", "63,488", "91.75"), row("split", "6000", "70"))
    )
    rows, split = kernels
    assert (rows.name, rows.time_us, rows.launches, rows.registers) == ("rows", pytest.approx(63.488), 1, 32)
    assert (rows.memory_percent, rows.dram_percent, rows.compute_percent) == (91.75, 90.5, 31.25)
    assert (rows.occupancy_percent, rows.occupancy_limit_percent, rows.tensor_percent) == (97.5, 100.0, 0.0)
    assert list(rows.stalls.items()) == [("long_scoreboard", 12.5), ("barrier", 0.5)]
    assert list(rows.pipes.items()) == [("xu", 40.0), ("fma", 12.0)]
    assert (split.launches, split.time_us, split.memory_percent) == (2, pytest.approx(8.0), pytest.approx(65.0))
    assert decode(encode(rows), KernelProfile) == rows


def test_what_a_gpu_does_not_give_is_missing_not_zero():
    (kernel,) = ncu.read_table(table(row("rows", "1000", "n/a")))
    assert kernel.memory_percent is None and kernel.dram_percent == 90.5


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "sandboxes such as gVisor"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.", "launched no kernel"),
        ("==ERROR== The application returned an error code (1).", "returned an error code"),
        ("", "printed none"),
    ],
)  # fmt: skip
def test_why_there_are_no_counters_is_one_sentence(output, message):
    assert ncu.read_table(output) == ()
    reason = ncu.why_not(output)
    assert message in reason and "\n" not in reason
    assert ncu.why_not(table(row("rows", "1", "2"))) == ""


def test_nsight_compute_leaves_the_clocks_alone_and_writes_apart_from_what_the_candidate_prints():
    command = ncu.command("/opt/ncu", Path("/tmp/table"), ["python", "x.py"])
    assert command[0] == "/opt/ncu" and command[-2:] == ["python", "x.py"]
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--log-file") + 1] == "/tmp/table"


def event(category: str, name: str, ts: float, dur: float, **args: object) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


ROWS = {"registers per thread": 48, "grid": [64, 1, 1], "block": [256, 1, 1], "blocks per SM": 0.4848485,
        "est. achieved occupancy %": 12}  # fmt: skip


def traced(*starts: float) -> str:
    """Calls after a flush each: the flush ends at the start, and two kernels and a copy follow."""
    events = [event("cpu_op", "aten::empty_like", 0.0, 900.0), {"ph": "M", "name": "process_name", "args": {}}]
    for start in starts:
        events += [
            event("kernel", "fill", start - 80.0, 80.0, grid=[4096, 1, 1], block=[128, 1, 1]),
            event("kernel", "rows", start + 5.0, 40.0, **ROWS),
            event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", start + 50.0, 10.0),
            event("kernel", "rows", start + 55.0, 15.0, **ROWS),
        ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


def test_a_trace_tells_launches_and_gaps_of_a_call_and_leaves_the_flushes_out():
    profile = trace.read_trace(traced(1000.0, 1200.0, 1400.0))
    assert (profile.launches, profile.busy_us) == (3, pytest.approx(60.0))
    assert profile.gap_us == pytest.approx(5.0 + 5.0)
    rows, copy = profile.kernels
    assert (rows.name, rows.launches, rows.time_us, rows.registers) == ("rows", 2, pytest.approx(55.0), 48)
    assert (rows.blocks_per_multiprocessor, rows.occupancy_limit_percent) == (pytest.approx(0.4848485), 12.0)
    assert copy.time_us == pytest.approx(10.0) and profile.sources == ("torch",)


def test_a_kernel_like_the_flush_in_another_shape_is_the_candidates():
    text = json.loads(traced(1000.0, 1200.0))
    text["traceEvents"].append(event("kernel", "fill", 1080.0, 7.0, grid=[8, 1, 1], block=[128, 1, 1]))
    profile = trace.read_trace(json.dumps(text))
    assert {kernel.name for kernel in profile.kernels} == {"fill", "rows", "Memcpy DtoD (Device -> Device)"}


def test_a_device_that_shows_nothing_is_not_a_candidate_without_kernels():
    with pytest.raises(trace.NothingTraced):
        trace.read_trace(json.dumps({"traceEvents": [event("cpu_op", "aten::add", 0.0, 1.0)]}))
    alone = [event("kernel", "fill", 0.0, 80.0, grid=[4096, 1, 1])]
    profile = trace.read_trace(json.dumps({"traceEvents": alone}))
    assert profile.kernels == () and profile.launches == 0


BAD = json.dumps({"traceEvents": [event("kernel", "rows", 0.0, 1.0)]})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "not json", "[" * 100_000, '{"traceEvents": 3}', BAD.replace('"dur": 1.0', '"dur": NaN'),
     BAD.replace('"dur": 1.0', '"dur": "x"'), BAD.replace('"ts": 0.0', '"ts": 1e999')],
    ids=range(9),
)  # fmt: skip
def test_what_is_no_trace_is_refused(text):
    with pytest.raises(ValueError, match="no trace"):
        trace.read_trace(text)


def frame(name: str, cycles: float | None = None, children: tuple[dict, ...] = ()) -> dict:
    metrics = {} if cycles is None else {"cycles": cycles, "normalized_cycles": cycles / 2}
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def test_protons_tree_gives_shares_of_a_kernel():
    kernel = frame("rows", None, (frame("load", 300.0), frame("reduce", 100.0)))
    text = json.dumps([frame("ROOT", None, (kernel, frame("other", 5.0))), {"CUDA": {"0": {"arch": "90"}}}])
    assert proton.read_tree(text) == {"rows": {"load": 0.75, "reduce": 0.25}}


@pytest.mark.parametrize("text", ["", "{}", '[{"frame": 3, "children": 4}]', '[{"frame": {}, "children": [{}]}]'])
def test_what_is_no_tree_of_proton_is_refused_or_empty(text):
    try:
        assert proton.read_tree(text) == {}
    except ValueError as error:
        assert "no tree of Proton" in str(error)


def test_only_a_file_with_scopes_is_worth_asking():
    assert proton.has_scopes('import triton.profiler.language as pl\npl.enter_scope("load")')
    assert not proton.has_scopes("import triton")


def test_counters_join_times_under_the_names_of_both_tools():
    timed = (KernelProfile(name="void at::native::reduce_kernel<512, 1>(float*)", time_us=10.0, launches=2),)
    counted = (KernelProfile(name="reduce_kernel", time_us=30.0, dram_percent=80.0),)
    (kernel,) = merged(timed, counted)
    assert (kernel.time_us, kernel.launches, kernel.dram_percent) == (10.0, 2, 80.0)


def test_counters_of_two_instances_of_a_template_are_not_guessed():
    timed = (KernelProfile(name="void reduce<512>(float*)", time_us=10.0, blocks_per_multiprocessor=2.0),)
    counted = tuple(KernelProfile(name=f"reduce<{n}>(float*)", time_us=1.0, dram_percent=n) for n in (128, 256))
    assert merged(timed, counted) == timed
    (kernel,) = merged(timed, counted[:1])
    assert (kernel.dram_percent, kernel.blocks_per_multiprocessor) == (128, 2.0)


def test_the_doctor_says_which_profilers_are_permitted():
    seen = DeviceProfile(sources=("torch",), kernels=(), launches=1, busy_us=1.0, isolation="process+seccomp",
                         unavailable=(ncu.why_not("==ERROR== ERR_NVGPUCTRPERM"),))  # fmt: skip
    trace_check, counters = profiler_checks(seen)
    assert trace_check.status is Status.ok and "seccomp" in trace_check.detail and not trace_check.way_out
    assert counters.status is Status.warn and "RestrictProfilingToAdminUsers" in counters.detail and counters.way_out


CPU = Setting(PROGRAM, device="cpu")
INSPECT = replace(PROBE, seconds=120.0, source="import torch\n\ndef kernel():\n    return torch.ones(8).sum()\n")


@pytest.fixture
async def standby():
    process = Standby("trace", CPU)
    yield process
    await process.close()


async def test_a_process_that_waits_looks_into_a_candidate_behind_closed_doors(standby):
    await standby.connected(120.0)
    await standby.load(INSPECT, ())
    assert standby.isolation[0] == "process" and "rlimits" in standby.isolation
    await standby.measure(60.0)
    await standby.end()
    assert b"aten::ones" in standby.output
    profile, reasons = put_together({"trace": standby})
    assert profile.kernels == () and "sees nothing on the device" in reasons["trace"]


async def test_what_is_warmed_up_while_there_is_time_looks_as_before(standby):
    await standby.connected(120.0)
    await standby.warm_up(60.0)
    await standby.warm_up(60.0)
    await standby.load(INSPECT, ())
    await standby.measure(60.0)
    await standby.end()
    assert b"aten::ones" in standby.output


ESCAPES = """
import os, pathlib, socket
escaped = []
for name, escape in (
    ("file", lambda: pathlib.Path({outside!r}).write_text("x")),
    ("network", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).connect(("127.0.0.1", 9))),
    ("program", lambda: os.posix_spawn("/bin/true", ["true"], {{}})),
):
    try:
        escape()
        escaped.append(name)
    except ConnectionRefusedError:
        escaped.append(name)
    except OSError:
        pass
raise RuntimeError(f"could do: {{escaped}}; scratch {{pathlib.Path('here').write_text('x')}}")
"""


async def test_a_candidate_under_a_profiler_is_as_shut_off_as_this_machine_allows(standby, tmp_path):
    outside = tmp_path / "outside"
    await standby.connected(120.0)
    with pytest.raises(NothingSeen, match=r"scratch 1") as caught:
        await standby.load(replace(INSPECT, source=ESCAPES.format(outside=str(outside))), ())
    assert "program" not in str(caught.value) or sys.platform != "linux"
    assert not outside.exists() or "file" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "seconds", "why"),
    [
        ("import os; os._exit(3)", 120.0, "exit status 3"),
        ("while True: pass", 2.0, "no answer within 2 s"),
    ],
)
async def test_a_candidate_that_fails_under_a_profiler_gives_a_reason(standby, body, seconds, why):
    await standby.connected(120.0)
    with pytest.raises(NothingSeen, match=why):
        await standby.load(replace(INSPECT, source=body, seconds=seconds), ())


class Scripted(Profilers):
    """Profilers whose runs are told beforehand: which modes see nothing of a candidate, and of the probe."""

    def __init__(self, *, candidate: set[str], closed: set[str] = frozenset(), opened: set[str] = frozenset()):
        super().__init__(Setting(PROGRAM))
        self._missing.clear()
        self._blind = {"candidate": candidate, "closed": closed, "open": opened}
        self.runs: list[tuple[str, ...]] = []

    def get_ready(self, lease=None) -> None:
        pass

    async def _run(self, modes, inspect, files, lease):
        def blind(mode):
            return self._blind["candidate" if inspect is not PROBE else "open" if mode in self._open else "closed"]

        self.runs.append(tuple(modes))
        return NOTHING, {mode: f"{mode} failed" for mode in modes if mode in blind(mode)}


LEASE = Lease(Pool(name="h200", platform="nvidia", languages=("triton",)), Path("/nonexistent"))


async def test_a_candidate_that_hides_from_a_profiler_neither_ends_it_nor_opens_a_door():
    profilers = Scripted(candidate={"trace", "counters"})
    profile = await profilers.profile(INSPECT, (), LEASE)
    assert len(profile.unavailable) == 2 and "saw nothing of it: trace failed" in profile.unavailable[0]
    assert profilers.missing == () and not profilers._open
    assert profilers.runs == [("trace", "counters"), ("trace",), ("counters",)]
    await profilers.profile(INSPECT, (), LEASE)
    assert profilers.runs[3:] == [("trace", "counters")], "what the probe has shown once is known"


async def test_a_profiler_that_sees_the_probe_with_open_doors_alone_gets_them():
    profilers = Scripted(candidate={"counters"}, closed={"counters"})
    await profilers.profile(INSPECT, (), LEASE)
    assert profilers._open == {"counters"} and profilers.missing == ()


async def test_a_profiler_that_sees_no_probe_is_done_without():
    profilers = Scripted(candidate={"counters"}, closed={"counters"}, opened={"counters"})
    first, second = [await profilers.profile(INSPECT, (), LEASE) for _ in range(2)]
    assert first.unavailable == second.unavailable == profilers.missing == ("counters failed",)
    assert profilers.runs[-1] == ("trace",)


class HeldCounters(Scripted):
    """Somebody else has the counters in the first run."""

    async def _run(self, modes, inspect, files, lease):
        self.runs.append(tuple(modes))
        busy = f"{ncu.NO_COUNTERS}an error was reported by the driver."
        return NOTHING, {"counters": busy} if len(self.runs) == 1 else {}


async def test_counters_that_another_one_had_a_moment_ago_are_asked_for_once_more():
    profilers = HeldCounters(candidate=set())
    profile = await profilers.profile(INSPECT, (), LEASE)
    assert profile.unavailable == () and profilers.runs == [("trace", "counters")] * 2


async def test_nsight_compute_runs_in_one_session_of_a_device_at_a_time(tmp_path):
    """Whoever waits for the counters holds no lease: who has them needs it."""
    pool = Pool(name="h200", platform="nvidia", languages=("triton",))
    counters, entered = Lease(pool, tmp_path, "GPU-0.counters"), []
    inside, leave = asyncio.Event(), asyncio.Event()

    class Session(Profilers):
        async def _run_alone(self, modes, inspect, files, lease):
            entered.append(self)
            inside.set()
            await leave.wait()
            return NOTHING, {}

    first, second = (Session(Setting(PROGRAM), Lease(pool, tmp_path, "GPU-0.counters")) for _ in range(2))
    lease = Lease(pool, tmp_path, "GPU-0")
    running = [asyncio.create_task(session._run(["counters"], PROBE, (), lease)) for session in (first, second)]
    await inside.wait()
    async with lease.exclusive():
        pass
    assert len(entered) == 1 and not any(task.done() for task in running)
    leave.set()
    await asyncio.gather(*running)
    assert len(entered) == 2
    async with counters.exclusive():
        pass


LOG_FILE = 'while [ "$1" != --log-file ]; do shift; done; log=$2'


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
async def test_where_nothing_can_be_profiled_it_is_said_once_and_done_without(tmp_path, monkeypatch):
    tool = tmp_path / "ncu"
    failure = "==ERROR== Failed to initialize: LibraryNotLoaded"
    tool.write_text(f'#!/bin/sh\n{LOG_FILE}\necho "{failure}" > "$log"\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    profilers = Profilers(Setting(PROGRAM))
    lease = Lease(Pool(name="h200", platform="nvidia", languages=("triton",)), tmp_path, "GPU-0")
    try:
        profile = await profilers.profile(PROBE, (), lease)
        assert profile is not None and not profile.kernels and not profile.sources
        assert any("torch.profiler" in reason and "no CUDA device" in reason for reason in profile.unavailable)
        assert any("no counters of the GPU" in reason and "gVisor" in reason for reason in profile.unavailable)
        assert len(profile.unavailable) == 2 and profile.unavailable == profilers.missing
        assert await profilers.profile(PROBE, (), lease) is None
    finally:
        await profilers.close()
