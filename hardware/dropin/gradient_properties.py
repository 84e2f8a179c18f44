"""Properties of gradients: what of :mod:`.properties` differentiates."""

from typing import Any

import torch

from .conditions import leaves
from .selfcheck import mapped
from .sides import Side, is_floating


def backward(result: Any, factor: float = 1.0) -> None:
    """Differentiate a sum of all that is floating in ``result``."""
    generator = torch.Generator().manual_seed(1)
    ends = [one for one in leaves(result) if is_floating(one) and one.requires_grad]
    weights = [torch.randn(one.shape, generator=generator).to(one) * factor for one in ends]
    torch.autograd.backward(ends, weights)


def gradients(sources: list[torch.Tensor]) -> Any:
    """What was accumulated."""
    return [one.grad for one in sources]


def first(side: Side) -> Any:
    """Gradients of one call."""
    inputs, sources = side.followed()
    backward(side.call(*inputs))
    return gradients(sources)


def accumulated(side: Side) -> Any:
    """Gradients of two calls, the second backward pass first."""
    inputs, sources = side.followed()
    one, other = side.call(*inputs), side.call(*inputs)
    backward(other, 0.5)
    backward(one)
    return gradients(sources)


def mixed(side: Side) -> Any:
    """Gradients through operations before and behind."""
    inputs, sources = side.followed()
    before = [mapped(value, lambda leaf: leaf * 1.5 if is_floating(leaf) else leaf) for value in inputs]
    ends = [one * 2 for one in leaves(side.call(*before)) if is_floating(one)]
    rest = [leaf.square() for leaf in leaves(before) if is_floating(leaf)]
    backward([ends, rest])
    return gradients(sources)


def twice(side: Side) -> Any:
    """Gradients of gradients."""
    inputs, sources = side.followed()
    ends = [one.square().sum() for one in leaves(side.call(*inputs)) if is_floating(one) and one.requires_grad]
    found = torch.autograd.grad(sum(ends), sources, create_graph=True, allow_unused=True)
    total = sum(one.square().sum() for one in found if one is not None and one.requires_grad)
    return torch.autograd.grad(total, sources, allow_unused=True)


def graph(side: Side) -> Any:
    """With gradients on, outputs have a graph where something requires it; without, none."""
    inputs, _ = side.followed()
    on = [one.requires_grad for one in leaves(side.call(*inputs)) if isinstance(one, torch.Tensor)]
    with torch.no_grad():
        off = [one.requires_grad for one in leaves(side.call(*inputs)) if isinstance(one, torch.Tensor)]
    return [on, off]
