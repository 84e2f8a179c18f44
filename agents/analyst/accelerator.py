"""What limits a candidate on an accelerator: thresholds over what its profilers saw, each with its reason.

Without counters the time line of the kernels is left, what the compiler said of them, and the roofline.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from ...graph.session_graph import SearchGraph
from ...graph.worth_profiling import seen
from ...schemas import Bottleneck, DeviceProfile, KernelProfile, KernelResources, ProfileReport
from .limits import AT_FLOOR, BANDWIDTH, Limits

BUSY = 60.0
"""Percent of its peak from which a unit is what limits a kernel. Below it in memory and arithmetic alike the kernel
waits: Nsight Compute's own rule "SpeedOfLight" calls that latency bound."""

GAP_SHARE = 0.2
"""Share of a call in which nothing runs, from which launching is what takes the time."""

LOW_OCCUPANCY = 50.0
"""Percent of the warps that a multiprocessor holds below which there may be too few to hide what each waits for."""

STALL_SHARE = 0.3
"""Share of a warp's time between two instructions, from which one reason to wait is named (Nsight Compute's "CPIStall"
rule takes the same)."""

MAIN_SHARE = 0.1
"""Share of the time from which a kernel's spills are worth a finding."""

GRAPH = "graph"
"""Calls that the device replays: nobody launches anything between their kernels (:attr:`.Timing.measure`)."""

WITHOUT = ("selected", "not_selected")
"""States of a warp that could have issued: no reason to wait."""

SHORT_US = 15.0
"""A call of so many microseconds is mostly launching, whatever it launches."""


@dataclass(frozen=True)
class DeviceLimits:
    """What a diagnosis on an accelerator looks at."""

    median_us: float
    fraction: float | None
    """Of the roofline."""
    limit: str
    """``memory`` or ``compute``: where the roofline's floor comes from; empty if unknown."""
    transcendental: bool
    may_look_up: bool
    """Whether dependent loads may be those of a search or gather."""
    profile: DeviceProfile | None
    """None where nobody looked, or nobody may."""
    spills: tuple[KernelResources, ...]
    """Kernels whose registers did not fit, as the compiler said."""
    compiled: int
    """Kernels that were compiled ahead."""
    reads_device_time: bool = False
    """:attr:`.SessionOpened.reads_device_time`."""

    @staticmethod
    def of(graph: SearchGraph, node: str, report: ProfileReport, shared: Limits) -> "DeviceLimits":
        """Gather from the node's reports; in a confirmation the look may have been at the first timing."""
        assert report.timing is not None
        record = graph.nodes.get(node)
        profile = report.device or (seen(record) if record is not None else None)
        kernels = record.compile_report.kernels if record is not None and record.compile_report is not None else ()
        median_us = report.timing.median_ms["candidate"] * 1e3
        reads_device_time = graph.opened is not None and graph.opened.reads_device_time
        if profile is not None and reads_device_time and report.timing.measure == GRAPH:
            profile = replace(profile, gap_us=max(0.0, median_us - profile.busy_us))
        return DeviceLimits(
            median_us=median_us,
            fraction=shared.fraction,
            limit=shared.limit,
            transcendental=shared.transcendental,
            may_look_up=bool(shared.lookups) or not shared.heeds_files,
            profile=profile if profile is not None and profile.kernels else None,
            spills=tuple(kernel for kernel in kernels if kernel.spill_bytes > 0),
            compiled=len({kernel.name for kernel in kernels} if reads_device_time else kernels),
            reads_device_time=reads_device_time,
        )

    @property
    def main(self) -> KernelProfile | None:
        """The kernel that takes the most time."""
        return self.profile.kernels[0] if self.profile is not None else None

    @property
    def main_share(self) -> float:
        """Its share of the kernels' time."""
        total = sum(kernel.time_us for kernel in self.profile.kernels) if self.profile is not None else 0.0
        return self.main.time_us / total if self.main is not None and total > 0 else 0.0

    @property
    def gap_share(self) -> float | None:
        """Share of a call in which nothing runs; None if unknown."""
        if self.profile is None or self.profile.gap_us is None:
            return None
        call_us = self.profile.busy_us + self.profile.gap_us
        return self.profile.gap_us / call_us if call_us > 0 else None

    @property
    def counted(self) -> bool:
        """Whether there are counters of the main kernel."""
        main = self.main
        return main is not None and (main.memory_percent is not None or main.compute_percent is not None)

    @property
    def waits(self) -> tuple[tuple[str, float], ...]:
        """Reasons for which the main kernel's warps wait, with the share of their time, the largest first."""
        stalls = self.main.stalls if self.main is not None else {}
        total = sum(stalls.values())
        shares = [(why, warps / total) for why, warps in stalls.items() if why not in WITHOUT and total > 0]
        return tuple(sorted(shares, key=lambda wait: (-wait[1], wait[0])))


def memory_use(kernel: KernelProfile) -> float:
    """Percent of the peak of the busiest part of the memory system; 0 if unknown."""
    return max(kernel.memory_percent or 0.0, kernel.dram_percent or 0.0)


def arithmetic_use(kernel: KernelProfile) -> float:
    """Percent of the peak of the busiest arithmetic; 0 if unknown."""
    return max(kernel.compute_percent or 0.0, kernel.tensor_percent or 0.0)


def bottleneck(limits: DeviceLimits) -> Bottleneck:
    """The one word for it; the first that applies."""
    if limits.fraction is not None and limits.fraction >= AT_FLOOR:
        return Bottleneck.at_floor
    if limits.gap_share is not None and limits.gap_share >= GAP_SHARE:
        return Bottleneck.overhead
    if limits.main is not None and limits.counted:
        return _by_counters(limits, limits.main)
    return _by_roofline(limits)


def _by_counters(limits: DeviceLimits, main: KernelProfile) -> Bottleneck:
    memory, arithmetic = memory_use(main), arithmetic_use(main)
    if memory >= BUSY and memory >= arithmetic:
        needed = limits.limit == "memory" and limits.fraction is not None and limits.fraction >= BANDWIDTH
        return Bottleneck.memory_bandwidth if needed else Bottleneck.memory_traffic
    if arithmetic >= BUSY:
        return Bottleneck.compute
    return Bottleneck.parallelism if _few_blocks(main) else Bottleneck.latency


def _by_roofline(limits: DeviceLimits) -> Bottleneck:
    if limits.main is not None and _few_blocks(limits.main):
        return Bottleneck.parallelism
    if limits.median_us < SHORT_US:
        return Bottleneck.overhead
    if limits.limit == "memory":
        enough = limits.fraction is not None and limits.fraction >= BANDWIDTH
        return Bottleneck.memory_bandwidth if enough else Bottleneck.memory_traffic
    return Bottleneck.compute


def _few_blocks(kernel: KernelProfile) -> bool:
    return kernel.blocks_per_multiprocessor is not None and kernel.blocks_per_multiprocessor < 1.0


def in_short(limits: DeviceLimits, named: Bottleneck) -> str:
    """What the word rests on, for the summary; empty if the roofline says it all."""
    main = limits.main
    if named is Bottleneck.at_floor:
        return ""
    if named is Bottleneck.overhead and limits.gap_share is not None and limits.profile is not None:
        return f"nothing runs in {limits.gap_share:.0%} of a call of {limits.profile.launches} launches"
    if main is None or not limits.counted:
        return "by the roofline and the compiler, without counters"
    metrics = f"memory {memory_use(main):.0f} %, arithmetic {arithmetic_use(main):.0f} % of peak"
    if named is Bottleneck.latency and limits.waits:
        metrics += f", waits for {limits.waits[0][0].replace('_', ' ')}"
    return metrics


def spilled(limits: DeviceLimits) -> Iterator[tuple[KernelResources, float | None]]:
    """Kernels whose registers spilled and that matter, each with its share of the time if that is known."""
    profile = limits.profile
    total = sum(kernel.time_us for kernel in profile.kernels) if profile is not None else 0.0
    for kernel in limits.spills:
        times = (
            [kernel_profile.time_us for kernel_profile in profile.kernels if kernel.name in kernel_profile.name]
            if profile is not None
            else []
        )
        share = sum(times) / total if times and total > 0 else None
        if share is None or share >= MAIN_SHARE:
            yield kernel, share
