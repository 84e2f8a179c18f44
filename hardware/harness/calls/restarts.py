"""Restores before each timed call what the last one changed, in baselines and candidate alike.

The counted time of both includes the restoring, so neither gains by it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..messages.state import INPUT, StateEntry
from ..tensors import values
from .state import after_call, cloned

_copy = torch.Tensor.copy_
_NOTHING: tuple[Any, list[tuple[torch.Tensor, torch.Tensor]]] = (None, [])


class Restarts:
    """For one process and the copies of the inputs that its calls rotate through."""

    def __init__(self, entries: Sequence[StateEntry], module: Any, restore: Callable[[], None]) -> None:
        """``restore`` puts back what ``module`` keeps; inputs are put back here."""
        self._entries = entries
        self._module = module
        self._restore = restore
        self.written = tuple(entry.tensor for entry in entries if entry.kind == INPUT)
        """Indices of the input tensors that calls write."""
        self.is_in_module = len(self.written) < len(entries)
        """Whether a module keeps some of what calls change."""
        self._argument = -1
        self._originals: dict[int, tuple[Any, list[tuple[torch.Tensor, torch.Tensor]]]] = {}
        """By the identity of the argument that the first of them lies in: that, and their tensors with their starts."""

    def begin_from(self, inputs: list[Any]) -> list[Any]:
        """Inputs whose calls begin from what ``inputs`` hold at that time; only tensors that calls write are others."""
        written = {id(values.tensors_of(inputs)[index]) for index in self.written}
        own: list[Any] = values.mapped(
            inputs, lambda tensor: values.copied(tensor) if id(tensor) in written else tensor
        )
        self.save_originals(own, values.tensors_of(inputs))
        return own

    def save_originals(self, inputs: list[Any], starts: Sequence[torch.Tensor] = ()) -> None:
        """Remember what a copy of the inputs holds, or that its tensors begin from ``starts``."""
        if not self.written:
            return
        tensors = values.tensors_of(inputs)
        counts = [len(values.tensors_of([value])) for value in inputs]
        self._argument = next(i for i in range(len(inputs)) if sum(counts[: i + 1]) > self.written[0])
        argument = inputs[self._argument]
        pairs = [(tensors[index], starts[index] if starts else cloned(tensors[index])) for index in self.written]
        self._originals[id(argument)] = argument, pairs

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, from the start each time; inputs whose start nobody saved are left as they are."""

        def restarted(*arguments: Any) -> Any:
            if self._argument >= 0:
                for tensor, start in self._originals.get(id(arguments[self._argument]), _NOTHING)[1]:
                    _copy(tensor, start)
            self._restore()
            return call(*arguments)

        return restarted

    def taken(self, output: Any, inputs: list[Any]) -> Any:
        """What a call returned and left, out of reach of the next one."""
        return [*map(cloned, values.leaves(output)), *after_call(self._entries, inputs, self._module)]

    def left(self, output: Any, inputs: list[Any], *, aliased: bool) -> list[Any]:
        """The same, outputs copied only where they lie in the state (``aliased``)."""
        outputs = values.leaves(output)
        return [*(map(cloned, outputs) if aliased else outputs), *after_call(self._entries, inputs, self._module)]

    def written_of(self, inputs: list[Any]) -> list[torch.Tensor]:
        """The tensors in ``inputs`` that calls write."""
        tensors = values.tensors_of(inputs)
        return [tensors[index] for index in self.written]
