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
    ran = sorted(_read(text), key=lambda one: one.start)
    if not ran:
        raise NothingTraced("torch.profiler sees nothing on the device")
    flush, calls = ran[0].identity, list[tuple[float, list[_Ran]]]()
    for one in ran:
        if one.identity == flush:
            calls.append((one.end, []))
        else:
            calls[-1][1].append(one)
    kernels: dict[str, list[_Ran]] = {}
    for one in (one for _, launched in calls for one in launched):
        kernels.setdefault(one.name, []).append(one)
    found = sorted((_kernel(name, same, len(calls)) for name, same in kernels.items()), key=lambda one: -one.time_us)
    spans = [_busy_and_idle(free, launched) for free, launched in calls]
    return DeviceProfile(
        sources=("torch",),
        kernels=tuple(found[:MOST_KERNELS]),
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
    longest = max(launches, key=lambda one: one.end - one.start)
    registers = [number for one in launches if (number := _number(one, "registers per thread"))]
    occupancy = [number for one in launches if (number := _number(one, "est. achieved occupancy %")) is not None]
    return KernelProfile(
        name=name,
        time_us=sum(one.end - one.start for one in launches) / calls,
        launches=max(1, round(len(launches) / calls)),
        registers=int(max(registers)) if registers else None,
        occupancy_limit_percent=mean(occupancy) if occupancy else None,
        blocks_per_multiprocessor=_number(longest, "blocks per SM"),
    )


def _number(one: _Ran, name: str) -> float | None:
    """What the trace says of a launch, if it is a number that can be one."""
    value = one.details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None


def _busy_and_idle(free: float, launched: Iterable[_Ran]) -> tuple[float, float]:
    """From the moment the device was ``free``: time in which something ran, and in which nothing did before the end."""
    busy, idle, until = 0.0, 0.0, free
    for one in launched:
        if one.start > until:
            idle += one.start - until
            until = one.start
        if one.end > until:
            busy += one.end - until
            until = one.end
    return busy, idle
