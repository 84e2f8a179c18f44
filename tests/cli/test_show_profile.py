"""``show --node`` with what profilers saw: counters of a processor, kernels of an accelerator."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from logged import planned

import given
from kernelswarm.schemas import CandidateProfiled, DeviceProfile, Event, KernelProfile, ProfileReport, encode
from kernelswarm.store import Log, log_path

Command = Callable[..., Any]

SESSION = "rows-7kq2m"
NO_COUNTERS = "no counters of the GPU: Nsight Compute (ncu) is not installed"
LOOKED = DeviceProfile(
    sources=("torch", "ncu"),
    kernels=(
        KernelProfile(
            name="rows[bold]", time_us=80.0, launches=2, memory_percent=92.0, dram_percent=91.0, compute_percent=30.0,
            occupancy_percent=88.0, registers=32, blocks_per_multiprocessor=62.06,
            stalls={"long_scoreboard": 12.0, "selected": 1.0},
        ),
        KernelProfile(name="tail", time_us=2.0, occupancy_limit_percent=25.0),
    ),
    launches=3,
    busy_us=82.0,
    gap_us=4.5,
    unavailable=(NO_COUNTERS,),
    isolation="process+seccomp",
    seconds=2.5,
)  # fmt: skip


def write(home: Path, *reports: ProfileReport) -> None:
    events: list[tuple[Event, str]] = [(given.opened(), ""), planned("n001", 1)]
    events += [(CandidateProfiled(report=report, confirmation=n > 0), "n001") for n, report in enumerate(reports)]
    with Log.open(log_path(home)) as log:
        envelopes = [
            given.envelope_of(event, node=node, session=SESSION, cause=str(n)) for n, (event, node) in enumerate(events)
        ]
        log.append([(number, encode(envelope)) for number, envelope in enumerate(envelopes, 1)])


@pytest.fixture
def looked_into(home: Path) -> Path:
    first = msgspec.structs.replace(given.profile(0.1), device=LOOKED)
    write(home, first, given.profile(0.1))
    return home


def test_a_look_is_shown_with_its_key_counters(looked_into: Path, kernelswarm: Command) -> None:
    shown = kernelswarm("show", SESSION, "--node", "n001").out
    assert "by torch and ncu in 2.5 s" in shown and "3 launches, 82.0 us busy, 4.5 us of gaps" in shown
    assert NO_COUNTERS in shown and "process+seccomp" in shown
    (line,) = [line for line in shown.splitlines() if "rows[bold]" in line]
    assert line.split() == ["rows[bold]", "2", "80.0", "92", "%", "91", "%", "30", "%", "88", "%", "32", "62.1",
                            "long", "scoreboard", "12.0"]  # fmt: skip
    assert "≤ 25 %" in shown
    report = json.loads(kernelswarm("show", SESSION, "--node", "n001", "--json").out)
    assert report["device"]["kernels"][0]["dram_percent"] == 91.0 and report["counters"] is None


def test_a_processors_counters_are_shown(home: Path, kernelswarm: Command) -> None:
    write(home, given.profile(1.0, counters={"instructions": 5e6, "cycles": 1e7, "page_faults": 0.5}))
    shown = kernelswarm("show", SESSION, "--node", "n001").out
    assert "instructions 5,000,000, cycles 10,000,000, page faults 0.5" in shown
    assert "0.50 instructions a cycle" in shown
