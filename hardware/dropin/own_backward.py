"""Part of every finished file: the gradients of a kernel that comes with its own backward pass."""

from collections.abc import Callable
from typing import Any

import torch

Call = Callable[..., Any]


def differentiable(kernel: Call, backward: Call, reference: Call) -> Call:
    """``kernel`` with ``backward(*inputs, *cotangents)`` as its gradient.

    Where somebody differentiates the gradient once more, it comes from the reference.
    """

    class Kernel(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.save_for_backward(*[value for value in inputs if isinstance(value, torch.Tensor)])
            ctx.others = [None if isinstance(value, torch.Tensor) else value for value in inputs]
            ctx.is_tensor = [isinstance(value, torch.Tensor) for value in inputs]
            result = kernel(*inputs)
            results = result if isinstance(result, tuple | list) else (result,)
            exact = [value for value in results if isinstance(value, torch.Tensor) and not value.is_floating_point()]
            ctx.mark_non_differentiable(*exact)
            ctx.floating = [isinstance(value, torch.Tensor) and value.is_floating_point() for value in results]
            return result if isinstance(result, torch.Tensor) else tuple(results)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            saved = iter(ctx.saved_tensors)
            inputs = [next(saved) if own else value for own, value in zip(ctx.is_tensor, ctx.others, strict=True)]
            given = [value for value, is_floating in zip(cotangents, ctx.floating, strict=True) if is_floating]
            floating = [index for index, value in enumerate(inputs) if is_differentiable(value)]
            if torch.is_grad_enabled():
                grads = recomputed(reference, inputs, floating, given)
            else:
                answer = backward(*inputs, *given)
                grads = list(answer) if isinstance(answer, tuple | list) else [answer]
            by_input = dict(zip(floating, grads, strict=True))
            return tuple(by_input.get(index) if ctx.needs_input_grad[index] else None for index in range(len(inputs)))

    call: Call = Kernel.apply
    return call


def is_differentiable(value: Any) -> bool:
    """Whether ``value`` is a floating tensor."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def recomputed(reference: Call, inputs: list[Any], floating: list[int], cotangents: list[Any]) -> list[Any]:
    """The reference's gradients by the inputs at ``floating``, with a graph of their own."""
    # Views of their own: an input that nobody asks about must be followed, too.
    taken = list(inputs)
    for index in floating:
        taken[index] = inputs[index].view_as(inputs[index]) if inputs[index].requires_grad else inputs[index]
    result = reference(*taken)
    results = result if isinstance(result, tuple | list) else (result,)
    pairs = [
        (value, weight)
        for value, weight in zip(filter(is_differentiable, results), cotangents, strict=True)
        if value.requires_grad
    ]
    required = [index for index in floating if taken[index].requires_grad]
    if not pairs or not required:
        return [None] * len(floating)
    ends, weights = zip(*pairs, strict=True)
    grads = torch.autograd.grad(
        ends, [taken[index] for index in required], weights, create_graph=True, allow_unused=True
    )
    by_input = dict(zip(required, grads, strict=True))
    return [by_input.get(index) for index in floating]
