"""Times batches of calls, in the candidate's process and in the baselines' alike."""

import gc
import time
from collections.abc import Callable
from typing import Any

from .messages import Time, Timed


class Stopwatch:
    """Rotates through copies of the inputs, so that no call sees what the one before it saw."""

    # No dictionary: a candidate cannot hang a method of its own on the instance.
    __slots__ = ("_turn", "copies")

    def __init__(self) -> None:
        self.copies: list[list[Any]] = []
        self._turn = 0

    def stock(self, inputs: list[Any]) -> None:
        """Add one copy."""
        self.copies.append(inputs)

    def run(
        self, call: Callable[..., Any], command: Time, clock: Callable[[], int] = time.perf_counter_ns
    ) -> tuple[Timed, Any]:
        """Time one batch; ``clock`` is bound when this module is imported, before any candidate.

        Returns:
            The times, and what the last call returned.
        """
        began = clock()
        gc.disable()
        output: Any = None
        for inputs in self._next(command.warm):
            output = call(*inputs)
        batch = self._next(command.calls)
        started = clock()
        for inputs in batch:
            output = call(*inputs)
        ended = clock()
        gc.enable()
        last = (self._turn - 1) % len(self.copies)
        return Timed(ns=ended - started, whole_ns=clock() - began, last=last), output

    def _next(self, calls: int) -> list[list[Any]]:
        batch = [self.copies[(self._turn + index) % len(self.copies)] for index in range(calls)]
        self._turn += calls
        return batch
