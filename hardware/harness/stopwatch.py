"""Times batches of calls, in the candidate's process and in the baselines' alike."""

import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from .messages import HOST, Time, Timed
from .place import Place

FLUSH_BYTES = 256 << 20
"""Written between two calls on an accelerator: several times its last-level cache."""

_Event = torch.cuda.Event
_record, _elapsed_time = torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_synchronize = torch.cuda.synchronize
_fill = torch.Tensor.fill_


def _nothing() -> None:
    """No new inputs."""


def stopwatch_for(place: Place) -> "Stopwatch":
    """The stopwatch for calls whose tensors are at ``place``."""
    return Stopwatch() if place.device.type == HOST else DeviceStopwatch(place.device)


class Stopwatch:
    """Rotates through copies of the inputs, so that no call sees what the one before it saw."""

    # No dictionary: a candidate cannot hang a method of its own on the instance.
    __slots__ = ("_turn", "copies")

    copies: list[list[Any]]
    """Inputs, in the order of the rotation."""

    def __init__(self) -> None:
        self.copies: list[list[Any]] = []
        self._turn = 0

    def stock(self, inputs: list[Any]) -> None:
        """Add one copy."""
        self.copies.append(inputs)

    def run(
        self,
        call: Callable[..., Any],
        command: Time,
        clock: Callable[[], int] = time.perf_counter_ns,
        arrive: Callable[[], None] = _nothing,
    ) -> tuple[Timed, Any]:
        """Time one batch; ``clock`` is bound when this module is imported, before any candidate.

        Args:
            call: What is timed.
            command: How many calls of which kind.
            clock: Nanoseconds.
            arrive: Puts new inputs into a copy, after the first of the untimed calls.

        Returns:
            The times, and what the last call returned.
        """
        began = clock()
        gc.disable()
        output = self._prepare(call, command, arrive)
        batch = self._next(command.calls)
        started = clock()
        for inputs in batch:
            output = call(*inputs)
        ended = clock()
        gc.enable()
        return Timed(ns=ended - started, whole_ns=clock() - began, last=self._last), output

    def _prepare(self, call: Callable[..., Any], command: Time, arrive: Callable[[], None]) -> Any:
        """The untimed calls; what the last of them returned is let go of when the next one has returned."""
        output: Any = None
        for inputs in self._next(command.before):
            output = call(*inputs)
        arrive()
        for inputs in self._next(command.warm):
            output = call(*inputs)
        return output

    @property
    def _last(self) -> int:
        return (self._turn - 1) % len(self.copies)

    def _next(self, calls: int) -> list[list[Any]]:
        batch = [self.copies[(self._turn + index) % len(self.copies)] for index in range(calls)]
        self._turn += calls
        return batch


class DeviceStopwatch(Stopwatch):
    """Times by the device's own events, the last-level cache flushed before every call.

    The flush keeps the device busy while the call is launched: launching costs only what exceeds it.
    """

    __slots__ = ("_device", "_flushed")

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._flushed = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)

    def run(
        self,
        call: Callable[..., Any],
        command: Time,
        clock: Callable[[], int] = time.perf_counter_ns,
        arrive: Callable[[], None] = _nothing,
    ) -> tuple[Timed, Any]:
        """Time one batch; ``ns`` is what the events say, ``whole_ns`` what ``clock`` does, flushes included."""
        began = clock()
        gc.disable()
        output = self._prepare(call, command, arrive)
        batch = self._next(command.calls)
        pairs = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in batch]
        for inputs, (before, after) in zip(batch, pairs, strict=True):
            _fill(self._flushed, 1)
            _record(before)
            output = call(*inputs)
            _record(after)
        _synchronize(self._device)
        ns = round(sum(_elapsed_time(before, after) for before, after in pairs) * 1e6)
        gc.enable()
        return Timed(ns=ns, whole_ns=clock() - began, last=self._last), output
