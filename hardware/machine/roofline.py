"""How far from the machine's limit a time is (Williams, Waterman, Patterson: Roofline, CACM 2009)."""

from ...schemas import HardwareFacts, Roofline, Work

FASTEST_ALLOWED = {
    "float32": ("tf32", "fp32"),
    "bfloat16": ("bf16",),
    "float16": ("fp16",),
    "float8_e4m3fn": ("fp8",),
    "float8_e5m2": ("fp8",),
}
"""By a problem's precision, the units that an honest kernel may use: fp32 in several passes of tf32 too, so that unit's
peak is the one that no implementation passes."""


def roofline(work: Work, hardware: HardwareFacts, median_ms: float, *, copies: int = 1, dtype: str = "") -> Roofline:
    """The floor of ``work`` on ``hardware``, and what fraction of ``median_ms`` (milliseconds) it is.

    ``copies`` says how many copies of the inputs the calls rotated through: so much has been touched before the same
    bytes come again, and only what is still in a cache then is faster than memory. ``dtype`` is the problem's precision
    as torch spells it; it matters where matrix units have peaks of their own.

    A fraction above 1 is possible where part of the data sat in a nearer cache than its size suggests; it is not
    clipped, because it says that the figure of the machine is to be doubted.

    Raises:
        ValueError: the time is not above 0, or the hardware's peaks are not.
    """
    if not median_ms > 0:
        raise ValueError(f"a median of {median_ms} ms is no time")
    moved = work.read_bytes + work.write_bytes
    speed = bandwidth_gbps(hardware, copies * work.read_bytes + work.write_bytes)
    peak = peak_gflops(hardware, dtype)
    if not (speed > 0 and peak > 0):
        raise ValueError(f"peaks of {hardware.device!r} are not measured: {speed} GB/s, {peak} GFLOP/s")
    memory_ms = moved / speed / 1e6
    compute_ms = work.flops / peak / 1e6
    floor = max(memory_ms, compute_ms)
    return Roofline(
        floor_ms=floor,
        fraction=floor / median_ms,
        limit="memory" if memory_ms >= compute_ms else "compute",
    )


def peak_gflops(hardware: HardwareFacts, dtype: str = "") -> float:
    """Ceiling of the arithmetic at the precision ``dtype``, 10^9 operations a second: the highest that is measured."""
    units = FASTEST_ALLOWED.get(dtype.removeprefix("torch."), ())
    return max([hardware.peak_gflops, *(hardware.matmul_gflops.get(unit, 0.0) for unit in units)])


def bandwidth_gbps(hardware: HardwareFacts, working_set: int) -> float:
    """Ceiling of the bandwidth for ``working_set`` bytes, 10^9 bytes a second read plus written.

    That of the largest measured set that is not larger: between two sets a cache's edge may lie, and a floor must
    hold on both sides of it.
    """
    if not hardware.bandwidths:
        return hardware.copy_gbps
    smallest = hardware.bandwidths[0][1]
    return next((speed for size, speed in reversed(hardware.bandwidths) if size <= working_set), smallest)
