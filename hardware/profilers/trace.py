"""What torch.profiler recorded: which kernels a call launches, their time, and when the device has nothing to do."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from ...schemas import DeviceProfile, KernelProfile

LARGEST = 64 << 20
"""Bytes of a trace that are worth reading."""
MOST_KERNELS = 32
_LONGEST_NAME = 200
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of the trace's events that occupy the device."""


class NothingTraced(ValueError):
    """There is a trace and not even the flushes are in it: this machine does not let torch.profiler see the device."""


@dataclass(frozen=True)
class _Ran:
    name: str
    start: float
    end: float
    """Microseconds."""
    details: Mapping[str, Any]

    @property
    def identity(self) -> tuple[str, str]:
        return self.name, str((self.details.get("grid"), self.details.get("block")))


def read_trace(text: str | bytes) -> DeviceProfile:
    """One call: means of its kernels, medians of what is busy and what is not, over the calls in a Chrome trace.

    Before each call the cache was flushed by one and the same kernel, the first in the trace.

    Raises:
        NothingTraced: nothing that occupies the device is in it.
        ValueError: it is no trace.
    """
    ran = sorted(_read(text), key=lambda event: event.start)
    if not ran:
        raise NothingTraced("torch.profiler sees nothing on the device")
    flush, calls = ran[0].identity, list[tuple[float, list[_Ran]]]()
    for launch in ran:
        if launch.identity == flush:
            calls.append((launch.end, []))
        else:
            calls[-1][1].append(launch)
    kernels: dict[str, list[_Ran]] = {}
    for launch in (item for _, launched in calls for item in launched):
        kernels.setdefault(launch.name, []).append(launch)
    profiles = sorted(
        (_kernel(name, same, len(calls)) for name, same in kernels.items()), key=lambda kernel: -kernel.time_us
    )
    spans = [_busy_and_idle(free, launched) for free, launched in calls]
    return DeviceProfile(
        sources=("torch",),
        kernels=tuple(profiles[:MOST_KERNELS]),
        launches=round(median(len(launched) for _, launched in calls)),
        busy_us=median(busy for busy, _ in spans),
        gap_us=median(idle for _, idle in spans),
    )


def _read(text: str | bytes) -> list[_Ran]:
    if len(text) > LARGEST:
        raise ValueError(f"this is no trace of torch.profiler: {len(text) >> 20} MiB of it")
    try:
        events = json.loads(text)["traceEvents"]
        return [
            _ran(event)
            for event in events
            if isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") in _ON_DEVICE
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"this is no trace of torch.profiler: {error}") from error


def _ran(event: Mapping[str, Any]) -> _Ran:
    start, duration = float(event["ts"]), float(event["dur"])
    if not (math.isfinite(start) and math.isfinite(duration) and duration >= 0):
        raise ValueError(f"an event at {start} of {duration}")
    details = event.get("args")
    name = str(event["name"])[:_LONGEST_NAME]
    return _Ran(name, start, start + duration, details if isinstance(details, dict) else {})


def _kernel(name: str, launches: Sequence[_Ran], calls: int) -> KernelProfile:
    longest = max(launches, key=lambda launch: launch.end - launch.start)
    registers = [number for launch in launches if (number := _number(launch, "registers per thread"))]
    occupancy = [number for launch in launches if (number := _number(launch, "est. achieved occupancy %")) is not None]
    return KernelProfile(
        name=name,
        time_us=sum(launch.end - launch.start for launch in launches) / calls,
        launches=max(1, round(len(launches) / calls)),
        registers=int(max(registers)) if registers else None,
        occupancy_limit_percent=mean(occupancy) if occupancy else None,
        blocks_per_multiprocessor=_number(longest, "blocks per SM"),
    )


def _number(launch: _Ran, name: str) -> float | None:
    """What the trace says of a launch, if it is a number that can be one."""
    value = launch.details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None


def _busy_and_idle(free: float, launched: Iterable[_Ran]) -> tuple[float, float]:
    """From the moment the device was ``free``: time in which something ran, and in which nothing did before the end."""
    busy, idle, until = 0.0, 0.0, free
    for launch in launched:
        if launch.start > until:
            idle += launch.start - until
            until = launch.start
        if launch.end > until:
            busy += launch.end - until
            until = launch.end
    return busy, idle
