"""Forward and backward pass as one call, for problems that ask for both (docs/judge/gradients.md).

Such a problem has one more argument, the cotangents: for every floating output a tensor like it. The answer is the
outputs and, behind them, the gradient of ``sum(output * cotangent)`` by every floating input. Everything else of the
harness sees an ordinary problem: private cotangents, an oracle in float64, both passes timed together.

In a user's program the outputs are there before the cotangents are. So after some forward passes, which nobody knows
before, the outputs are copied and the cotangents change their sign. Who puts outputs off until the backward pass, or
takes gradients in the forward pass, is wrong there.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..tensors import values

_grad = torch.autograd.grad
_enable_grad = torch.enable_grad
_detach = torch._C.TensorBase.detach
_zeros_like = torch.zeros_like
_clone, _neg = torch.clone, torch.neg
_random = os.urandom
_is_initialized, _is_capturing = torch.cuda.is_initialized, torch.cuda.is_current_stream_capturing

_SALT = 0x9E3779B97F4A7C15
"""Cotangents are drawn from another stream than the inputs of the same seed."""
CHECKED, TIMED = 2, 32
"""In one of so many calls the sign is changed: it costs as much as a call of few operations."""

Differentiate = Callable[[Sequence[torch.Tensor]], list[Any]]


def differentiated(
    forward: Callable[..., Any], backward: Callable[..., Any] | None = None, *, among: int = 0
) -> Callable[..., list[Any]]:
    """A function of the inputs and the cotangents.

    ``backward(*inputs, *cotangents)`` returns the gradients, None for one that is zero; without it they come from
    differentiating ``forward``. ``among``: in one of so many calls the sign is changed; 0: never.
    """

    def call(*arguments: Any) -> list[Any]:
        *inputs, cotangents = arguments
        sources = _sources(inputs)
        if backward is not None:
            outputs = values.leaves(forward(*inputs))
            differentiate: Differentiate = lambda given: values.leaves(backward(*inputs, *given))  # noqa: E731
        else:
            outputs, differentiate = _followed(forward, inputs, sources)
        if among and _is_drawn(among):
            outputs = [_made(_clone, output) for output in outputs]
            gradients = [_made(_neg, gradient) for gradient in differentiate([_neg(given) for given in cotangents])]
        else:
            gradients = differentiate(cotangents)
        if len(gradients) != len(sources):
            raise TypeError(f"backward gives {len(gradients)} gradients, there are {len(sources)} floating inputs")
        return [
            *outputs,
            *(
                _zeros_like(source) if g is None else _made(_apart, g)
                for source, g in zip(sources, gradients, strict=True)
            ),
        ]

    return call


def cotangents(outputs: Any, seed: int) -> tuple[torch.Tensor, ...]:
    """A random tensor for each floating one among ``outputs``, where that is.

    A processor draws a number for each of 4 GB in 27 s, in one thread.
    """
    floating = [output for output in values.leaves(outputs) if _is_floating(output)]
    generators = {
        output.device: torch.Generator(output.device).manual_seed((seed ^ _SALT) % 2**63) for output in floating
    }
    return tuple(
        torch.randn(
            output.shape,
            generator=generators[output.device],
            # Not `promote_types`: it refuses types of eight bits.
            dtype=torch.float64 if output.dtype is torch.float64 else torch.float32,
            device=output.device,
        ).to(output.dtype)
        for output in floating
    )


def _followed(
    forward: Callable[..., Any], inputs: list[Any], sources: list[torch.Tensor]
) -> tuple[list[Any], Differentiate]:
    """Outputs, and what differentiates them."""
    with _enable_grad():
        followed = [_detach(source).requires_grad_() for source in sources]
        remaining = iter(followed)
        outputs = values.leaves(forward(*values.mapped(inputs, lambda leaf: _taken(leaf, remaining))))
    floating = [output for output in outputs if _is_floating(output)]

    def differentiate(given: Sequence[torch.Tensor]) -> list[Any]:
        pairs = [(output, weight) for output, weight in zip(floating, given, strict=True) if output.requires_grad]
        if not pairs:
            raise TypeError("no answer carries a gradient: make kernel differentiable, or define backward beside it")
        ends, weights = zip(*pairs, strict=True)
        with _enable_grad():
            return list(_grad(ends, followed, weights, allow_unused=True))

    return [_detach(output) if isinstance(output, torch.Tensor) else output for output in outputs], differentiate


def _is_drawn(among: int) -> bool:
    # What a device replays is the same every time.
    return _random(1)[0] % among == 0 and not (_is_initialized() and _is_capturing())


def _apart(gradient: torch.Tensor) -> torch.Tensor:
    """Where it is added up, an expanded one is copied."""
    return gradient.contiguous() if 0 in gradient.stride() else gradient


def _made(make: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """``make`` of a tensor; everything else, with code of its own perhaps, is refused as it is."""
    return make(value) if type(value) is torch.Tensor else value


def _taken(tensor: torch.Tensor, followed: Any) -> torch.Tensor:
    taken: torch.Tensor = next(followed) if _is_floating(tensor) else tensor
    return taken


def _sources(inputs: list[Any]) -> list[torch.Tensor]:
    return [leaf for leaf in values.leaves(inputs) if _is_floating(leaf)]


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
