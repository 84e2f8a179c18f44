"""Times batches of calls, in the candidate's process and in the baselines' alike."""

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import Any

import torch

from ...processes.messages import HOST
from ..messages.timing import Time, Timed
from ..tensors.poisoning import Poisoning, generator, only_read
from ..tensors.tensor_placement import TensorDevice

FLUSH_BYTES = 256 << 20
"""Written between two calls on an accelerator: several times its last-level cache."""
FLUSHES_BEFORE_ONE = 8
"""So often before a call that is timed alone: nothing was launched ahead of it, and on a busy machine launching it
takes longer than one flush. A right kernel was taken for one that keeps answers: 88 us beside 40 in batches."""

Taken = Callable[[Any, list[Any]], Any]

_Event = torch.cuda.Event
_record, _elapsed_time = torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_synchronize = torch.cuda.synchronize
_fill = torch.Tensor.fill_
_islice, _length_hint, _urandom, _integer = islice, length_hint, os.urandom, int.from_bytes


def _nothing() -> None:
    """No new inputs."""


def as_it_is(output: Any, inputs: list[Any]) -> Any:
    """What a call returned."""
    return output


def stopwatch_for(tensor_device: TensorDevice) -> "Stopwatch":
    """The stopwatch for calls whose tensors are on ``tensor_device``."""
    return Stopwatch() if tensor_device.device.type == HOST else DeviceStopwatch(tensor_device.device)


class Stopwatch:
    """Rotates through copies of the inputs, so that no call sees what the one before it saw."""

    # No dictionary: a candidate cannot hang a method of its own on the instance.
    __slots__ = ("_turn", "copies", "written")

    copies: list[list[Any]]
    """Inputs, in the order of the rotation."""
    written: Sequence[int]
    """Indices of the input tensors that calls write."""

    def __init__(self) -> None:
        self.copies: list[list[Any]] = []
        self.written: Sequence[int] = ()
        self._turn = 0

    def add_inputs(self, inputs: list[Any]) -> None:
        """Add one copy."""
        self.copies.append(inputs)

    def restore_all(self) -> None:
        """Make all copies intact, for somebody else who uses them."""

    def run(
        self,
        call: Callable[..., Any],
        command: Time,
        clock: Callable[[], int] = time.perf_counter_ns,
        arrive: Callable[[], None] = _nothing,
        taken: Taken = as_it_is,
    ) -> tuple[Timed, Any]:
        """Time one batch; ``clock`` is bound when this module is imported, before any candidate.

        Args:
            call: What is timed.
            command: How many calls of which kind.
            clock: Nanoseconds.
            arrive: Puts new inputs into a copy, after the first of the untimed calls.
            taken: Makes what is kept of a call, before the next one, from what it returned and its inputs.

        Returns:
            The times, and what one of the timed calls returned: chance decides which, and only after it has.
        """
        began = clock()
        gc.disable()
        try:
            self.restore_all()
            self._prepare(call, command, arrive)
            ns, after, output = self._timed(call, command, clock, taken)
        finally:
            gc.enable()
        return Timed(ns=ns, whole_ns=clock() - began, kept=self._copy(after)), output

    def _prepare(self, call: Callable[..., Any], command: Time, arrive: Callable[[], None]) -> None:
        """The untimed calls."""
        for inputs in self._next(command.before):
            call(*inputs)
        arrive()
        self._warm_up(call, command.warm)

    def _warm_up(self, call: Callable[..., Any], calls: int) -> None:
        """Those after new inputs have arrived."""
        for inputs in self._next(calls):
            call(*inputs)

    def _timed(
        self, call: Callable[..., Any], command: Time, clock: Callable[[], int], taken: Taken
    ) -> tuple[int, int, Any]:
        """The timed calls: nanoseconds of all, how many came after the one whose output is kept, and that output."""
        return _run_batch(call, self._next(command.calls), clock, taken)

    def _copy(self, after: int) -> int:
        """Index of the copy that the call before the last ``after`` ones got."""
        return (self._turn - 1 - after) % len(self.copies)

    def _next(self, calls: int) -> list[list[Any]]:
        batch = [self.copies[(self._turn + index) % len(self.copies)] for index in range(calls)]
        self._turn += calls
        return batch


class DeviceStopwatch(Stopwatch):
    """Times by the device's own events, the last-level cache flushed before every call.

    The flush keeps the device busy while the call is launched: launching costs only what exceeds it. Only between the
    two events are its inputs intact, so nothing of it can run beside the flush.
    """

    __slots__ = ("_chance", "_device", "_flushed", "_poisonings")

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._chance = generator(device)
        self._poisonings: list[Poisoning] = []
        self._flushed = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)

    def restore_all(self) -> None:
        """Make all copies intact, for somebody else who uses them."""
        for poisoning in self._poisonings:
            poisoning.restore()
        self._poisonings = []

    def _warm_up(self, call: Callable[..., Any], calls: int) -> None:
        """From here until the next batch begins no call has a look at inputs that are not its own."""
        self._poisonings = [Poisoning(only_read(inputs, self.written), self._chance) for inputs in self.copies]
        for poisoning in self._poisonings:
            poisoning.poison()
        for inputs, poisoning in self._with_poisonings(calls):
            poisoning.restore()
            call(*inputs)
            poisoning.poison()

    def _with_poisonings(self, calls: int) -> list[tuple[list[Any], Poisoning]]:
        turn = self._turn
        return [
            (inputs, self._poisonings[(turn + index) % len(self._poisonings)])
            for index, inputs in enumerate(self._next(calls))
        ]

    def _timed(
        self, call: Callable[..., Any], command: Time, clock: Callable[[], int], taken: Taken
    ) -> tuple[int, int, Any]:
        """As of every stopwatch, but by the events; ``clock`` sees the flushes as well."""
        batch = self._with_poisonings(command.calls)
        pairs = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in batch]
        turns = iter([(*pair, poisoning) for pair, (_, poisoning) in zip(pairs, batch, strict=True)])
        flushes = range(command.flushes or (FLUSHES_BEFORE_ONE if command.calls == 1 else 1))

        def flushed(*inputs: Any) -> Any:
            before, after, poisoning = next(turns)
            for _ in flushes:
                _fill(self._flushed, 1)
            poisoning.restore()
            _record(before)
            output = call(*inputs)
            _record(after)
            poisoning.poison()
            return output

        _, after, output = _run_batch(flushed, [inputs for inputs, _ in batch], clock, taken)
        _synchronize(self._device)
        return round(sum(_elapsed_time(before, after) for before, after in pairs) * 1e6), after, output


def _run_batch(
    call: Callable[..., Any], batch: Sequence[list[Any]], clock: Callable[[], int], taken: Taken
) -> tuple[int, int, Any]:
    """Make the calls of a batch; returns their time, how many came after the one whose output is kept, and that output.

    An output is kept at a moment that is drawn, and by chance another one instead, at moments that are drawn when the
    one before has come. So no call knows that nobody will look at what it returns, however well it counts.
    """
    left, after, kept, output = iter(batch), 0, None, None
    # The first is drawn before the clock starts: the system may take as long as a short call. No call finds it here.
    drawn = [_some(left, len(batch))]
    started = clock()
    while True:
        for inputs in drawn.pop():
            output = call(*inputs)
        if not _length_hint(left):
            ns = clock() - started
            return ns, after, kept if after else taken(output, inputs)
        if not after or _urandom(1)[0] & 1:
            after, kept = _length_hint(left), taken(output, inputs)
        drawn.append(_some(left, len(batch)))


def _some(left: Iterator[list[Any]], calls: int) -> Iterator[list[Any]]:
    """Some of those that are left, one at least and at most ``calls``."""
    return _islice(left, 1 + _integer(_urandom(8), "little") % calls)
