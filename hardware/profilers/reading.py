"""What the profilers wrote of one candidate, put together."""

import csv
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ...schemas import DeviceProfile, KernelProfile
from . import ncu, proton, trace
from .standby import Standby

NOTHING = DeviceProfile(sources=(), kernels=(), launches=0, busy_us=0.0)
LARGEST_LOG = 16 << 20
NAMES = {"trace": "torch.profiler", "counters": "Nsight Compute", "scopes": "Proton"}
"""Profilers by mode."""


def put_together(looks: Mapping[str, Standby]) -> tuple[DeviceProfile, dict[str, str]]:
    """One profile of what was seen, and by mode why something was not."""
    found, reasons = NOTHING, dict[str, str]()
    readers = {"trace": _with_trace, "counters": _with_counters, "scopes": _with_scopes}
    for mode, one in looks.items():
        try:
            found = readers[mode](found, one)
        except (ValueError, csv.Error) as error:
            reasons[mode] = str(error)
    return replace(found, isolation=_isolation(looks)), reasons


def log_of(one: Standby) -> str:
    """What the tool around a process wrote; empty if it wrote nothing."""
    try:
        with one.log.open("rb") as file:
            return file.read(LARGEST_LOG).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _with_trace(found: DeviceProfile, one: Standby) -> DeviceProfile:
    return trace.read_trace(one.output)


def _with_counters(found: DeviceProfile, one: Standby) -> DeviceProfile:
    text = log_of(one)
    kernels = ncu.read_table(text)
    if not kernels:
        raise ValueError(ncu.why_not(text) or ncu.NO_KERNELS)
    if not found.kernels:
        total, launches = sum(one.time_us for one in kernels), sum(one.launches for one in kernels)
        found = replace(found, kernels=kernels, launches=launches, busy_us=total)
    return replace(found, sources=(*found.sources, "ncu"), kernels=merged(found.kernels, kernels))


def _with_scopes(found: DeviceProfile, one: Standby) -> DeviceProfile:
    regions = proton.read_tree(one.output)
    kernels = tuple(replace(kernel, regions=regions.get(kernel.name, {})) for kernel in found.kernels)
    return replace(found, sources=(*found.sources, "proton"), kernels=kernels)


def merged(timed: Sequence[KernelProfile], counted: Sequence[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Counters of ``counted`` beside the times of ``timed``: under Nsight Compute a kernel runs alone and is slower."""
    whole = {kernel.name: kernel for kernel in counted}
    by_name: dict[str, list[KernelProfile]] = {}
    for kernel in counted:
        by_name.setdefault(short_name(kernel.name), []).append(kernel)
    result = []
    for kernel in timed:
        alike = by_name.get(short_name(kernel.name), [])
        # Two instances of a template have one short name: whose counters they are would be a guess.
        seen = whole.get(kernel.name) or (alike[0] if len(alike) == 1 else None)
        result.append(kernel if seen is None else _joined(kernel, seen))
    return tuple(result)


def short_name(name: str) -> str:
    """``void at::native::reduce<...>(...)`` and ``reduce`` are one kernel to two profilers."""
    plain = name.removeprefix("void ").partition("(")[0].partition("<")[0]
    return plain.rpartition("::")[2].strip()


def _joined(timed: KernelProfile, counted: KernelProfile) -> KernelProfile:
    limit = counted.occupancy_limit_percent
    return replace(
        counted,
        name=timed.name,
        time_us=timed.time_us,
        launches=timed.launches,
        registers=counted.registers or timed.registers,
        blocks_per_multiprocessor=timed.blocks_per_multiprocessor,
        occupancy_limit_percent=timed.occupancy_limit_percent if limit is None else limit,
    )


def _isolation(looks: Mapping[str, Standby]) -> str:
    told = {mode: "+".join(one.isolation) for mode, one in looks.items()}
    if len(set(told.values())) <= 1:
        return next(iter(told.values()), "")
    return ", ".join(f"{NAMES[mode]} {layers}" for mode, layers in told.items())


__all__ = ["NAMES", "NOTHING", "log_of", "merged", "put_together", "short_name"]
