"""Losses for traces, without what PyTorch asks of their tensors' values.

``F.gaussian_nll_loss`` looks whether a variance is negative. ``ctc_loss`` reads the lengths, to choose between cuDNN's
kernels and its own; and the size of what these keep for the gradient depends on them, which PyTorch has no rule for.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

NONE, MEAN = 0, 1
"""Reductions, as ATen numbers them; 2 is the sum."""


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """``F.gaussian_nll_loss`` for variances that are not negative, of the input's shape or one dimension less."""
    import torch

    variance = var * torch.ones_like(input) if isinstance(var, float) else var
    if variance.ndim == input.ndim - 1:
        variance = variance.unsqueeze(-1)
    variance = variance.clamp(min=eps)
    losses = 0.5 * (torch.log(variance) + (input - target) ** 2 / variance)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
) -> Any:
    """``aten.ctc_loss`` with lengths as tensors or lists: ``(time, batch, classes)`` or ``(time, classes)``."""
    import torch

    is_batched = log_probs.ndim == 3
    batch = log_probs if is_batched else log_probs.unsqueeze(1)
    if isinstance(target_lengths, torch.Tensor):
        lengths = [value.to(torch.int64).reshape(-1) for value in (input_lengths, target_lengths)]
        losses = torch.ops.aten._ctc_loss.Tensor(batch, targets, *lengths, blank, zero_infinity)[0]
        counts = lengths[1].to(losses.device)
    else:
        losses = torch.ops.aten._ctc_loss.default(batch, targets, input_lengths, target_lengths, blank, zero_infinity)[
            0
        ]
        counts = torch.tensor(target_lengths, device=losses.device)
    if zero_infinity:
        losses = torch.where(losses == torch.inf, torch.zeros_like(losses), losses)
    if reduction == MEAN:
        return (losses / counts.clamp_min(1)).mean()
    if reduction == NONE:
        return losses if is_batched else losses.squeeze(0)
    return losses.sum()


@contextmanager
def shaped() -> Iterator[None]:
    """PyTorch's fake tensors know the shapes of what ``_ctc_loss`` returns."""
    import torch
    from torch._subclasses.fake_impls import op_implementations_dict

    operators = (torch.ops.aten._ctc_loss.Tensor, torch.ops.aten._ctc_loss.default)
    with mock.patch.dict(op_implementations_dict, dict.fromkeys(operators, _shapes)):
        yield


def _shapes(fake_mode: Any, function: Any, log_probs: Any, targets: Any, *rest: Any, **keywords: Any) -> Any:
    """One loss for each sequence; the gradient's table has a size that only the lengths tell."""
    size = fake_mode.shape_env.create_unbacked_symint()
    with fake_mode:
        losses = log_probs.new_empty((log_probs.shape[1],))
        return losses, log_probs.new_empty((log_probs.shape[1], log_probs.shape[0], size))
