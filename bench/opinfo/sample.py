"""Something to capture: an operator or a module, and what to call it with."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...hardware.harness.calls.state import in_precision


@dataclass(frozen=True)
class Sample:
    """Something to call, and what to call it with."""

    target: Callable[..., Any]
    """A function of tensors, or a module with weights."""
    inputs: list[Any]
    names: list[str]
    """Of the inputs."""

    def fresh(self) -> Any:
        """A module of its own, in the state that this one began with; a function as it is."""
        return copy.deepcopy(self.target) if isinstance(self.target, torch.nn.Module) else self.target

    def precise(self) -> Callable[..., Any]:
        """The target with weights in float64."""
        target = self.target
        return in_precision(target, torch.float64) if isinstance(target, torch.nn.Module) else target
