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

    @property
    def size(self) -> int:
        """Elements of the inputs."""
        return size_of(self.inputs)

    def again(self) -> list[Any]:
        """The inputs, untouched."""
        return copied(self.inputs)

    def first_rows(self, count: int) -> list[Any]:
        """So many rows of every input that has as many as the first."""
        rows = next(leaf for leaf in leaves(self.inputs) if isinstance(leaf, torch.Tensor) and leaf.ndim).shape[0]

        def cut(leaf: torch.Tensor) -> torch.Tensor:
            return leaf[:count] if leaf.ndim and leaf.shape[0] == rows else leaf

        return copied([mapped(value, cut) for value in self.inputs])

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


def size_of(inputs: list[Any]) -> int:
    """Elements of all tensors among ``inputs``."""
    return sum(leaf.numel() for leaf in leaves(inputs) if isinstance(leaf, torch.Tensor))


class NotApplicable(Exception):
    """The property is about something else: modules, or functions, or another device."""


def is_floating(value: Any) -> bool:
    """Whether ``value`` is a floating tensor."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()
