"""Nsight Compute: what it is asked, and what its tables say (NVIDIA, Nsight Compute documentation, "Metrics")."""

import csv
import io
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ...schemas import KernelProfile

MOST_KERNELS = 32
WARMED_UP = 1
"""Launches that come first in a table and are not the candidate's: Nsight Compute's own first one takes seconds."""
SECTIONS = ("SpeedOfLight", "Occupancy", "WarpStateStats", "LaunchStats", "ComputeWorkloadAnalysis")
"""Sections, not metrics: their names hold from one GPU generation to the next."""

_COLUMNS = {
    "memory_percent": r"gpu__compute_memory_throughput\.avg\.pct_of_peak_sustained_elapsed",
    "dram_percent": r"(gpu__dram|dram__)_?throughput\.avg\.pct_of_peak_sustained_elapsed",
    "compute_percent": r"sm__throughput\.avg\.pct_of_peak_sustained_elapsed",
    "tensor_percent": r"sm__(inst_executed_)?pipe_tensor\w*\.(avg|sum)\.pct_of_peak_sustained_(elapsed|active)",
    "occupancy_percent": r"sm__warps_active\.avg\.pct_of_peak_sustained_active",
    "occupancy_limit_percent": r"sm__maximum_warps_per_active_cycle_pct",
}
_PIPE = re.compile(
    r"sm__(?:inst_executed_pipe_(\w+)|pipe_(\w+)_cycles_active)\.(?:avg|sum)\.pct_of_peak_sustained_active"
)
_LONGEST_NAME = 200
_TIME = "gpu__time_duration.sum"
_REGISTERS = "launch__registers_per_thread"
_STALL = re.compile(r"smsp__average_warps?_(?:latency_)?issue_stalled_(\w+)_per_(?:issue_active|warp_active)\.ratio")
_TO_US = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}

NO_COUNTERS = "no counters of the GPU: "
NO_KERNELS = "the candidate launched no kernel that Nsight Compute could see"
_REASONS = (
    ("ERR_NVGPUCTRPERM", "the driver keeps its counters to administrators: load the nvidia module with "
     "NVreg_RestrictProfilingToAdminUsers=0, or run as root"),
    ("LibraryNotLoaded", "Nsight Compute cannot load its library here (sandboxes such as gVisor have no counters)"),
    ("No kernels were profiled", NO_KERNELS),
    ("driver resource was unavailable", "the driver has given them to another tool, such as DCGM: end it, or pause it "
     "with `dcgmi profile --pause`"),
    ("Cuda driver is not compatible", "this Nsight Compute does not know the driver: install its CUDA version's"),
)  # fmt: skip
MISSING = f"{NO_COUNTERS}Nsight Compute (ncu) is not installed"


def find_ncu() -> str:
    """Path of ``ncu``; empty if it is not installed."""
    places = sorted(map(str, Path("/opt/nvidia/nsight-compute").glob("*/ncu")), reverse=True)
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    paths = (shutil.which("ncu"), f"{home}/bin/ncu", *places)
    return next((path for path in paths if path and os.access(path, os.X_OK)), "")


def command(ncu: str, log: Path, program: Sequence[str] = ()) -> list[str]:
    """``program`` under Nsight Compute, which writes its table and its complaints to ``log``.

    Clocks are left alone: the machine may not be ours to set. Rules are not applied: the analyst has its own.
    """
    sections = [part for section in SECTIONS for part in ("--section", section)]
    table = ["--csv", "--page", "raw", "--print-units", "base", "--apply-rules", "no", "--log-file", str(log)]
    limits = ["--clock-control", "none", "--profile-from-start", "off", "--launch-count", str(WARMED_UP + MOST_KERNELS)]
    return [ncu, *table, *limits, *sections, *program]


def why_not(output: str, otherwise: str = "Nsight Compute printed none") -> str:
    """Why ``output`` holds no counters, as one sentence, ``otherwise`` if it does not say; empty if it has some."""
    if '"Kernel Name"' in output:
        return ""
    for mark, reason in _REASONS:
        if mark in output:
            return NO_COUNTERS + reason
    errors = [line.strip().removeprefix("==ERROR== ") for line in output.splitlines() if "ERROR" in line]
    return NO_COUNTERS + (errors[0] if errors else otherwise)


def may_pass(reason: str) -> bool:
    """Whether ``reason`` is one that a second try may not meet: somebody else had the counters a moment ago."""
    return "reported by the driver" in reason or "another tool" in reason


def read_table(output: str) -> tuple[KernelProfile, ...]:
    """Kernels of one call from the ``raw`` page as CSV, launches of one name together, longest first.

    The first :data:`WARMED_UP` launches are left out. What a GPU or a version of Nsight Compute does not give is None.
    Percentages of launches are weighted by time.
    """
    lines = output.splitlines()
    start = next((number for number, line in enumerate(lines) if '"Kernel Name"' in line), None)
    if start is None:
        return ()
    header, units, *rows = csv.reader(io.StringIO("\n".join(lines[start:])))
    unit = dict(zip(header, units, strict=False))
    launches: dict[str, list[KernelProfile]] = {}
    for row in rows[WARMED_UP:]:
        if len(row) == len(header):
            launch = _kernel(dict(zip(header, row, strict=True)), unit)
            launches.setdefault(launch.name, []).append(launch)
    return tuple(sorted(map(_together, launches.values()), key=lambda kernel: -kernel.time_us))


def _kernel(row: Mapping[str, str], unit: Mapping[str, str]) -> KernelProfile:
    values = {name: value for name, text in row.items() if (value := _number(text)) is not None}
    percents = {field: _first(values, re.compile(pattern)) for field, pattern in _COLUMNS.items()}
    stalls = {match[1]: value for name, value in values.items() if (match := _STALL.fullmatch(name)) and value > 0}
    pipes = {match[1] or match[2]: value for name, value in values.items() if (match := _PIPE.fullmatch(name))}
    registers = values.get(_REGISTERS)
    kernel = KernelProfile(
        name=row["Kernel Name"][:_LONGEST_NAME],
        time_us=values.get(_TIME, 0.0) * _TO_US.get(unit.get(_TIME, "ns"), 1e-3),
        registers=None if registers is None else int(registers),
        stalls={name: value for name, value in stalls.items() if not name.endswith("not_issued")},
        pipes={name: value for name, value in pipes.items() if value > 0},
    )
    return replace(kernel, **percents)


def _first(values: Mapping[str, float], pattern: re.Pattern[str]) -> float | None:
    return max((value for name, value in values.items() if pattern.fullmatch(name)), default=None)


def _together(launches: Sequence[KernelProfile]) -> KernelProfile:
    """One record of several launches of a kernel."""
    time = sum(launch.time_us for launch in launches)

    def mean(values: Sequence[float | None]) -> float | None:
        pairs = [(value, launch.time_us) for value, launch in zip(values, launches, strict=True) if value is not None]
        weight = sum(part for _, part in pairs)
        return sum(value * part for value, part in pairs) / weight if weight else None

    kernel = KernelProfile(
        name=launches[0].name,
        time_us=time,
        launches=len(launches),
        registers=max((launch.registers for launch in launches if launch.registers is not None), default=None),
        stalls=_means([launch.stalls for launch in launches], mean),
        pipes=_means([launch.pipes for launch in launches], mean),
    )
    return replace(kernel, **{field: mean([getattr(launch, field) for launch in launches]) for field in _COLUMNS})


def _means(
    by_launch: Sequence[Mapping[str, float]], mean: Callable[[Sequence[float | None]], float | None]
) -> dict[str, float]:
    """The mean of each name, the largest first; what a launch lacks was 0 there."""
    names = {name for values in by_launch for name in values}
    means = {name: mean([values.get(name, 0.0) for values in by_launch]) or 0.0 for name in sorted(names)}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
