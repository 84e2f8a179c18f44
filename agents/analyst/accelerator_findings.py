"""The findings of a diagnosis on an accelerator: which metric, its value, and what it means against which threshold."""

from collections.abc import Iterator

from ...schemas import Finding, KernelProfile
from .accelerator import BUSY, GAP_SHARE, LOW_OCCUPANCY, STALL_SHARE, DeviceLimits, spilled

MOST_NAME = 60
MOST_WAITS = 2
MOST_KERNELS = 6
"""So many are named with their time, the longest first."""
MOST_PIPES = 2

WAITS = {
    "long_scoreboard": "for data from device memory or the L2 cache",
    "short_scoreboard": "for shared memory or the special function unit",
    "barrier": "for other warps of the block",
    "membar": "for its own writes to be seen",
    "lg_throttle": "because too many small loads and stores are queued",
    "mio_throttle": "because too many accesses to shared memory are queued",
    "tex_throttle": "because too many texture accesses are queued",
    "math_pipe_throttle": "for an arithmetic unit that is in use",
    "gmma": "for the matrix units",
    "wait": "for the fixed latency of its own last instruction",
    "no_instruction": "for instructions to be fetched",
    "no_instructions": "for instructions to be fetched",
    "branch_resolve": "for a branch",
    "imc_miss": "for constants",
    "drain": "for its last stores",
    "sleeping": "because it sleeps",
    "dispatch_stall": "for the dispatcher",
    "misc": "for something else",
}
"""Nsight Compute's reasons in words (its documentation, "Warp Stall Reasons")."""


def of_device(limits: DeviceLimits) -> Iterator[Finding]:
    """Everything that was seen and means something, the time line first."""
    yield from _launches(limits)
    if limits.main is not None:
        yield from _main(limits, limits.main)
    yield from _spills(limits)
    if limits.profile is not None and not limits.counted:
        why = next((reason for reason in limits.profile.unavailable if "counters" in reason), "")
        yield Finding(name="counters", value="none", meaning=why or "no counters of the main kernel")


def _launches(limits: DeviceLimits) -> Iterator[Finding]:
    profile = limits.profile
    if profile is None:
        return
    few = f"{profile.busy_us:.1f} us of the device"
    if limits.reads_device_time and len(profile.kernels) > 1:
        few += ": " + ", ".join(f"{_name(kernel)} {kernel.time_us:.1f} us" for kernel in profile.kernels[:MOST_KERNELS])
    yield Finding(name="launches", value=f"{profile.launches} a call", meaning=few)
    if profile.gap_us is not None and limits.gap_share is not None:
        yield Finding(
            name="launch_gaps",
            value=f"{profile.gap_us:.1f} us a call",
            meaning=f"nothing runs in {limits.gap_share:.0%} of it: {_against(limits.gap_share * 100, GAP_SHARE * 100)}"
            " from which launching is the limit",
        )


def _main(limits: DeviceLimits, main: KernelProfile) -> Iterator[Finding]:
    of = f"of {_name(main)}, {limits.main_share:.0%} of the kernels' time"
    yield from _use("memory_percent", main.memory_percent, "memory system", of)
    yield from _use("dram_percent", main.dram_percent, "device memory", of)
    yield from _use("compute_percent", main.compute_percent, "multiprocessors' arithmetic", of)
    yield from _use("tensor_percent", main.tensor_percent or None, "matrix units", of)
    for pipe, percent in list(main.pipes.items())[:MOST_PIPES]:
        yield from _use(f"pipe_{pipe}", percent, f"{pipe} pipe", of)
    yield from _occupancy(main)
    yield from _waits(limits, main)
    if main.blocks_per_multiprocessor is not None:
        few = main.blocks_per_multiprocessor < 1
        yield Finding(
            name="blocks_per_multiprocessor",
            value=f"{main.blocks_per_multiprocessor:.2f}",
            meaning="below 1: multiprocessors stand idle" if few else "at least 1: each multiprocessor has work",
        )
    for region, share in list(main.regions.items())[:MOST_WAITS]:
        yield Finding(name=f"region_{region}", value=f"{share:.0%}", meaning=f"of the time inside {_name(main)}")


def _use(name: str, percent: float | None, unit: str, of: str) -> Iterator[Finding]:
    if percent is not None:
        meaning = f"{unit} {of}: {_against(percent, BUSY)} from which it is the limit"
        yield Finding(name=name, value=f"{percent:.0f} % of peak", meaning=meaning)


def _occupancy(main: KernelProfile) -> Iterator[Finding]:
    limit, registers = main.occupancy_limit_percent, main.registers
    allowed = "" if limit is None else f"; launch and {registers or 'its'} registers a thread allow {limit:.0f} %"
    if main.occupancy_percent is not None:
        meaning = f"{_against(main.occupancy_percent, LOW_OCCUPANCY)} below which latency may show{allowed}"
        yield Finding(name="occupancy_percent", value=f"{main.occupancy_percent:.0f} %", meaning=meaning)
    elif limit is not None:
        meaning = f"what the launch and {registers or 'its'} registers a thread allow: {_against(limit, LOW_OCCUPANCY)}"
        yield Finding(
            name="occupancy_limit_percent", value=f"{limit:.0f} %", meaning=f"{meaning} below which latency may show"
        )


def _waits(limits: DeviceLimits, main: KernelProfile) -> Iterator[Finding]:
    for why, share in limits.waits[:MOST_WAITS]:
        if share >= STALL_SHARE or why == limits.waits[0][0]:
            meaning = f"{share:.0%} of a warp's time is waiting {WAITS.get(why, 'for ' + why.replace('_', ' '))}: "
            yield Finding(
                name=f"stall_{why}",
                value=f"{main.stalls[why]:.1f} warps an instruction",
                meaning=f"{meaning}{_against(share * 100, STALL_SHARE * 100)} from which it is named",
            )


def _spills(limits: DeviceLimits) -> Iterator[Finding]:
    for kernel, share in spilled(limits):
        part = "" if share is None else f", which takes {share:.0%} of the time"
        yield Finding(
            name="register_spills",
            value=f"{kernel.spill_bytes} bytes a thread",
            meaning=f"{kernel.name}{part}, keeps them in local memory beside {kernel.registers} registers: above 0 they"
            " cost loads and stores",
        )


def _against(percent: float, threshold: float) -> str:
    return f"{'at or above' if percent >= threshold else 'below'} the {threshold:.0f} %"


def _name(kernel: KernelProfile) -> str:
    return kernel.name if len(kernel.name) <= MOST_NAME else kernel.name[: MOST_NAME - 1] + "…"
