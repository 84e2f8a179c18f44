"""Properties of gradients: what of :mod:`.properties` differentiates."""

from typing import Any

import torch

from .comparing import cotangents, mapped
from .conditions import leaves
from .sides import Side, is_floating


def backward(result: Any, factor: float = 1.0) -> None:
    """Differentiate a sum of all that is floating in ``result``."""
    ends = [leaf for leaf in leaves(result) if is_floating(leaf) and leaf.requires_grad]
    torch.autograd.backward(ends, [weight * factor for weight in cotangents(ends)])


def gradients(sources: list[torch.Tensor]) -> Any:
    """What was accumulated."""
    return [source.grad for source in sources]


def first(side: Side) -> Any:
    """Gradients of one call."""
    inputs, sources = side.followed()
    backward(side.call(*inputs))
    return gradients(sources)


def accumulated(side: Side) -> Any:
    """Gradients of two calls, the second backward pass first."""
    inputs, sources = side.followed()
    first_result, second_result = side.call(*inputs), side.call(*inputs)
    backward(second_result, 0.5)
    backward(first_result)
    return gradients(sources)


def mixed(side: Side) -> Any:
    """Gradients through operations before and behind."""
    inputs, sources = side.followed()
    before = [mapped(value, lambda leaf: leaf * 1.5 if is_floating(leaf) else leaf) for value in inputs]
    ends = [leaf * 2 for leaf in leaves(side.call(*before)) if is_floating(leaf)]
    rest = [leaf.square() for leaf in leaves(before) if is_floating(leaf)]
    backward([ends, rest])
    return gradients(sources)


def twice(side: Side) -> Any:
    """Gradients of gradients."""
    inputs, sources = side.followed()
    ends = [leaf.square().sum() for leaf in leaves(side.call(*inputs)) if is_floating(leaf) and leaf.requires_grad]
    grads = torch.autograd.grad(sum(ends), sources, create_graph=True, allow_unused=True)
    total = sum(grad.square().sum() for grad in grads if grad is not None and grad.requires_grad)
    return torch.autograd.grad(total, sources, allow_unused=True)


def graph(side: Side) -> Any:
    """With gradients on, outputs have a graph where something requires it; without, none."""
    inputs, _ = side.followed()
    on = [leaf.requires_grad for leaf in leaves(side.call(*inputs)) if isinstance(leaf, torch.Tensor)]
    with torch.no_grad():
        off = [leaf.requires_grad for leaf in leaves(side.call(*inputs)) if isinstance(leaf, torch.Tensor)]
    return [on, off]
