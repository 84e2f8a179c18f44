"""Times on a GPU: device events around a call, caches flushed before it, the calls of a round one after the other."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch


class Timer:
    """Times functions side by side."""

    def __init__(self, flush_bytes: int = 1 << 29) -> None:
        self._flush = torch.empty(flush_bytes, dtype=torch.int8, device="cuda")

    def once(self, call: Callable[[], Any]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Queue one call; the flush before it also hides how long the host takes to launch it."""
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.zero_()
        start.record()
        call()
        stop.record()
        return start, stop

    def samples(self, calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
        """Milliseconds of every call by name; rounds are interleaved, every other one in reverse."""
        events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
        for number in range(rounds):
            for name in list(calls) if number % 2 == 0 else list(calls)[::-1]:
                events[name].append(self.once(calls[name]))
            torch.cuda.synchronize()
        return {name: [a.elapsed_time(b) for a, b in pairs] for name, pairs in events.items()}


def copy_gbps(timer: Timer, count: int = 1 << 30) -> float:
    """Copy bandwidth, read plus written, in 10^9 bytes a second."""
    source = torch.empty(count, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    times = timer.samples({"copy": lambda: target.copy_(source)}, 10)["copy"]
    return 2 * 4 * count / statistics.median(times) / 1e6


def relative_error(got: Any, want: torch.Tensor) -> float:
    """Norm of the difference over the norm of what is right; infinity where a shape or a number is missing."""
    if got.shape != want.shape or not bool(torch.isfinite(got).all()):
        return float("inf")
    difference = torch.linalg.vector_norm(got.double() - want)
    return float(difference / torch.linalg.vector_norm(want).clamp_min(1e-300))
