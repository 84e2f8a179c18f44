"""How far from the machine's limit a time is (Williams, Waterman, Patterson: Roofline, CACM 2009)."""

from ..schemas import HardwareFacts, Roofline, Work


def roofline(work: Work, hardware: HardwareFacts, median_ms: float) -> Roofline:
    """The floor of ``work`` on ``hardware``, and what fraction of ``median_ms`` (milliseconds) it is.

    A fraction above 1 is possible where part of the data sat in a nearer cache than its size suggests; it is not
    clipped, because it says that the figure of the machine is to be doubted.

    Raises:
        ValueError: the time is not above 0, or the hardware's peaks are not.
    """
    if not median_ms > 0:
        raise ValueError(f"a median of {median_ms} ms is no time")
    moved = work.read_bytes + work.write_bytes
    speed = bandwidth_gbps(hardware, moved)
    if not (speed > 0 and hardware.peak_gflops > 0):
        raise ValueError(f"peaks of {hardware.device!r} are not measured: {speed} GB/s, {hardware.peak_gflops} GFLOP/s")
    memory_ms = moved / speed / 1e6
    compute_ms = work.flops / hardware.peak_gflops / 1e6
    floor = max(memory_ms, compute_ms)
    return Roofline(
        floor_ms=floor,
        fraction=floor / median_ms,
        limit="memory" if memory_ms >= compute_ms else "compute",
    )


def bandwidth_gbps(hardware: HardwareFacts, working_set: int) -> float:
    """Ceiling of the bandwidth for ``working_set`` bytes, 10^9 bytes a second read plus written.

    That of the largest measured set that is not larger: between two sets a cache's edge may lie, and a floor must
    hold on both sides of it.
    """
    if not hardware.bandwidths:
        return hardware.copy_gbps
    smallest = hardware.bandwidths[0][1]
    return next((speed for size, speed in reversed(hardware.bandwidths) if size <= working_set), smallest)
