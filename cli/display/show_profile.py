"""What profilers saw of a candidate, as text: the same for a processor's counters and an accelerator's kernels."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from ...schemas import Counters, DeviceProfile, KernelProfile
from .terminal import plain_table

MOST_KERNELS = 8
MOST_NAME = 48


def counter_lines(counters: Counters) -> Iterator[str]:
    """Counts of one call."""
    counts = [f"{name.replace('_', ' ')} {_count(value)}" for name, value in counters.values.items()]
    yield f"[bold]counters[/] a call, by {escape(counters.source)}"
    yield escape("  " + ", ".join(counts))
    values = counters.values
    if values.get("cycles") and "instructions" in values:
        yield f"  {values['instructions'] / values['cycles']:.2f} instructions a cycle"


def profile_lines(profile: DeviceProfile) -> Iterator[str]:
    """One call on the device, and what could not be asked."""
    by = " and ".join(profile.sources) or "nobody"
    yield f"[bold]profile[/] of a call, by {escape(by)} in {profile.seconds:.1f} s"
    if profile.kernels:
        gaps = "" if profile.gap_us is None else f", {profile.gap_us:.1f} us of gaps"
        yield f"  {profile.launches} launches, {profile.busy_us:.1f} us busy{gaps}"
    for reason in profile.unavailable:
        yield f"  [dim]{escape(reason)}[/]"
    if profile.isolation:
        yield f"  [dim]looked into under {escape(profile.isolation)}[/]"


def profile_table(profile: DeviceProfile) -> Table:
    """The kernels that take the most time, with their key counters; what was not measured is blank."""
    table = plain_table(
        "kernel",
        numbers=("x", "us", "memory", "dram", "compute", "tensor", "occupancy", "registers", "blocks/SM"),
        header="dim",
    )
    table.add_column("waits for")
    for kernel in profile.kernels[:MOST_KERNELS]:
        table.add_row(*_cells(kernel))
    return table


def _cells(kernel: KernelProfile) -> tuple[str, ...]:
    name = kernel.name if len(kernel.name) <= MOST_NAME else kernel.name[: MOST_NAME - 1] + "…"
    occupancy = _percent(kernel.occupancy_percent)
    if not occupancy and kernel.occupancy_limit_percent is not None:
        occupancy = f"≤ {kernel.occupancy_limit_percent:.0f} %"
    return (
        escape(name),
        str(kernel.launches),
        f"{kernel.time_us:.1f}",
        _percent(kernel.memory_percent),
        _percent(kernel.dram_percent),
        _percent(kernel.compute_percent),
        _percent(kernel.tensor_percent),
        occupancy,
        "" if kernel.registers is None else str(kernel.registers),
        "" if kernel.blocks_per_multiprocessor is None else f"{kernel.blocks_per_multiprocessor:.1f}",
        escape(", ".join(f"{why.replace('_', ' ')} {warps:.1f}" for why, warps in _waits(kernel))),
    )


def _waits(kernel: KernelProfile) -> list[tuple[str, float]]:
    return [(why, warps) for why, warps in kernel.stalls.items() if why not in ("selected", "not_selected")][:2]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
