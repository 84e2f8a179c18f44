"""What the properties of a drop-in are asked of: the reference, or the drop-in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .comparing import copied, mapped
from .conditions import leaves


@dataclass
class Side:
    """The reference or the drop-in, fresh, with inputs of its own."""

    call: Any
    inputs: list[Any]
    has_state: bool
    reimported: Callable[[bytes], Any]
    """Unpickles where the file has not been imported before."""

    @property
    def is_module(self) -> bool:
        """Whether it is a module."""
        return isinstance(self.call, torch.nn.Module)

    def again(self) -> list[Any]:
        """The inputs, untouched."""
        return copied(self.inputs)

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
        """The inputs, every floating tensor changed."""
        return [
            mapped(value, lambda leaf: change(leaf) if is_floating(leaf) else leaf.clone()) for value in self.inputs
        ]

    def followed(self) -> tuple[list[Any], list[torch.Tensor]]:
        """Inputs that require gradients, and all that do."""
        inputs = self.changed(lambda leaf: leaf.detach().clone().requires_grad_())
        weights = (
            [parameter for parameter in self.call.parameters() if parameter.requires_grad] if self.is_module else []
        )
        return inputs, [*filter(is_floating, leaves(inputs)), *weights]


class NotApplicable(Exception):
    """The property is about something else: modules, or functions, or another device."""


def is_floating(value: Any) -> bool:
    """Whether ``value`` is a floating tensor."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()
