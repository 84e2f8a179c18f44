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


def put_together(passes: Mapping[str, Standby]) -> tuple[DeviceProfile, dict[str, str]]:
    """One profile of what was seen, and by mode why something was not."""
    profile, reasons = NOTHING, dict[str, str]()
    readers = {"trace": _with_trace, "counters": _with_counters, "scopes": _with_scopes}
    for mode, standby in passes.items():
        try:
            profile = readers[mode](profile, standby)
        except (ValueError, csv.Error) as error:
            reasons[mode] = str(error)
    return replace(profile, isolation=_isolation(passes)), reasons


def log_of(standby: Standby) -> str:
    """What the tool around a process wrote; empty if it wrote nothing."""
    try:
        with standby.log.open("rb") as file:
            return file.read(LARGEST_LOG).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _with_trace(profile: DeviceProfile, standby: Standby) -> DeviceProfile:
    return trace.read_trace(standby.output)


def _with_counters(profile: DeviceProfile, standby: Standby) -> DeviceProfile:
    text = log_of(standby)
    kernels = ncu.read_table(text)
    if not kernels:
        raise ValueError(ncu.why_not(text) or ncu.NO_KERNELS)
    if not profile.kernels:
        total, launches = sum(kernel.time_us for kernel in kernels), sum(kernel.launches for kernel in kernels)
        profile = replace(profile, kernels=kernels, launches=launches, busy_us=total)
    return replace(profile, sources=(*profile.sources, "ncu"), kernels=merged(profile.kernels, kernels))


def _with_scopes(profile: DeviceProfile, standby: Standby) -> DeviceProfile:
    regions = proton.read_tree(standby.output)
    kernels = tuple(replace(kernel, regions=regions.get(kernel.name, {})) for kernel in profile.kernels)
    return replace(profile, sources=(*profile.sources, "proton"), kernels=kernels)


def merged(timed: Sequence[KernelProfile], counted: Sequence[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Counters of ``counted`` beside the times of ``timed``: under Nsight Compute a kernel runs alone and is slower."""
    by_full_name = {kernel.name: kernel for kernel in counted}
    by_name: dict[str, list[KernelProfile]] = {}
    for kernel in counted:
        by_name.setdefault(short_name(kernel.name), []).append(kernel)
    result = []
    for kernel in timed:
        alike = by_name.get(short_name(kernel.name), [])
        # Two instances of a template have one short name: whose counters they are would be a guess.
        seen = by_full_name.get(kernel.name) or (alike[0] if len(alike) == 1 else None)
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


def _isolation(passes: Mapping[str, Standby]) -> str:
    isolations = {mode: "+".join(standby.isolation) for mode, standby in passes.items()}
    if len(set(isolations.values())) <= 1:
        return next(iter(isolations.values()), "")
    return ", ".join(f"{NAMES[mode]} {layers}" for mode, layers in isolations.items())
