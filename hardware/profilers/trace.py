"""What torch.profiler recorded: which kernels a call launches, their time, and when the device has nothing to do."""

import json
from collections.abc import Sequence
from typing import Any

from ...schemas import DeviceProfile, KernelProfile

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of the trace's events that occupy the device."""


def read_trace(text: str | bytes, calls: int) -> DeviceProfile:
    """One call, as the mean over the ``calls`` that the Chrome trace ``text`` covers.

    Raises:
        ValueError: it is no trace.
    """
    try:
        events = json.loads(text)["traceEvents"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"this is no trace of torch.profiler: {error}") from error
    ran = [event for event in events if event.get("ph") == "X" and event.get("cat") in _ON_DEVICE]
    kernels: dict[str, list[dict[str, Any]]] = {}
    for event in ran:
        kernels.setdefault(str(event["name"]), []).append(event)
    busy, idle = _busy_and_idle([(float(event["ts"]), float(event["dur"])) for event in ran])
    return DeviceProfile(
        sources=("torch",),
        kernels=tuple(sorted((_kernel(name, found, calls) for name, found in kernels.items()), key=_longest)),
        launches=round(len(ran) / calls),
        busy_us=busy / calls,
        # Between the calls too: where launching is slower than the kernels, that is where the device waits.
        gap_us=idle / calls,
    )


def _kernel(name: str, events: Sequence[dict[str, Any]], calls: int) -> KernelProfile:
    details = [event.get("args", {}) for event in events]
    registers = [int(detail["registers per thread"]) for detail in details if "registers per thread" in detail]
    return KernelProfile(
        name=name,
        time_us=sum(float(event["dur"]) for event in events) / calls,
        launches=max(1, round(len(events) / calls)),
        registers=max(registers, default=None),
    )


def _longest(kernel: KernelProfile) -> float:
    return -kernel.time_us


def _busy_and_idle(spans: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Time in which one of the ``spans`` (start, duration) runs, and in which none does between first and last."""
    busy, idle, until = 0.0, 0.0, None
    for start, duration in sorted(spans):
        end = start + duration
        if until is None or start > until:
            idle += 0.0 if until is None else start - until
            busy += duration
            until = end
        elif end > until:
            busy += end - until
            until = end
    return busy, idle
