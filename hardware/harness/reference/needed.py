"""Which bytes of its inputs a reference must read: those whose numbers each change an output."""

from typing import Any

import torch

from ..calls.answering import Refused, attempt
from ..tensors import values
from .effects import copies
from .problem import ReferenceProblem

MOST_BYTES = 512 << 20
"""Of inputs. Beyond that, derivatives may not fit in memory beside everything else."""


def needed_bytes(reference: ReferenceProblem, inputs: list[Any]) -> int:
    """Bytes of the numbers in ``inputs`` by which the derivative of some answer is not zero.

    Never too many: integers count as nothing, and so does a reference that has no derivatives.
    """
    if values.size_of(inputs) > MOST_BYTES:
        return 0
    reference.restart()
    try:
        return attempt(lambda: _count(reference, copies(inputs)))
    except Refused:
        return 0


def _count(reference: ReferenceProblem, inputs: list[Any]) -> int:
    sources = [tensor for tensor in values.tensors_of(inputs) if tensor.is_floating_point()]
    with torch.enable_grad():
        for tensor in sources:
            tensor.requires_grad_()
        total = torch.zeros((), dtype=torch.float64)
        for output in values.tensors_of([reference.call(*inputs)]):
            if output.requires_grad and output.is_floating_point():
                generator = torch.Generator(output.device).manual_seed(0)
                weight = torch.randn(output.shape, generator=generator, dtype=torch.float32, device=output.device)
                total = total.to(output.device) + (output.double() * weight).sum()
        if not sources or not total.requires_grad:
            return 0
        gradients = torch.autograd.grad(total, sources, allow_unused=True)
    counts = ((source, grad) for source, grad in zip(sources, gradients, strict=True) if grad is not None)
    return sum(int(torch.count_nonzero(grad)) * source.element_size() for source, grad in counts)
