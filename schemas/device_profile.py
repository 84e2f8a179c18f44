"""Why a candidate takes its time on an accelerator: what profilers saw, in one shape whichever of them saw it."""

from .base import Schema


class KernelProfile(Schema, frozen=True, kw_only=True):
    """One kernel of one call. What no profiler measured is None or empty, never 0."""

    name: str

    time_us: float
    """Time on the device, microseconds, all its launches of one call together."""

    launches: int = 1
    """How often one call launches it."""

    memory_percent: float | None = None
    """Throughput of the memory system in percent of its peak (Nsight Compute's "memory throughput")."""

    dram_percent: float | None = None
    """The same of device memory alone."""

    compute_percent: float | None = None
    """Throughput of the multiprocessors in percent of their peak."""

    tensor_percent: float | None = None
    """Activity of the matrix units, percent of the elapsed cycles."""

    occupancy_percent: float | None = None
    """Warps that were resident, percent of what a multiprocessor holds."""

    occupancy_limit_percent: float | None = None
    """What registers, shared memory, block size and number of blocks allow of it."""

    blocks_per_multiprocessor: float | None = None
    """Blocks of the longest launch over multiprocessors: below 1 some of them have nothing to do."""

    registers: int | None = None
    """Of one thread."""

    pipes: dict[str, float] = {}
    """Use of each arithmetic pipe, percent of its peak, by Nsight Compute's name for it (``fma``, ``xu``, ``tensor``,
    …); the busiest first."""

    stalls: dict[str, float] = {}
    """Average warps per issued instruction that waited, by reason (``long_scoreboard``, ``barrier``, …), the largest
    first: it says what the kernel waits for. ``selected`` are those that did not wait."""

    regions: dict[str, float] = {}
    """Share of named regions inside the kernel, 0 to 1 (Proton)."""


class DeviceProfile(Schema, frozen=True, kw_only=True):
    """One call of a candidate on an accelerator."""

    sources: tuple[str, ...]
    """Which profilers gave something: ``ncu``, ``proton``, ``torch``."""

    kernels: tuple[KernelProfile, ...]
    """Longest first."""

    launches: int
    """Kernels and copies of one call."""

    busy_us: float
    """Time in which something ran on the device, microseconds a call."""

    gap_us: float | None = None
    """Time in which the device could have run something of the call and nothing was there, microseconds a call: from
    the moment it is free for the call to the end of the call's last kernel."""

    unavailable: tuple[str, ...] = ()
    """What could not be asked here, one sentence each with the way out."""

    isolation: str = ""
    """What held around the candidate while it was looked into, as ``process+rlimits+seccomp``; where that differs
    between profilers, each with its name."""

    seconds: float = 0.0
    """What looking took, waiting included."""
