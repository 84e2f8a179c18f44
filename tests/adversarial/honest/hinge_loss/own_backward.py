"""A function with its own backward pass; the mean as a pairwise sum."""

import torch
from torch import nn


class Hinge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, predictions, targets):
        margins = 1 - predictions * targets
        ctx.save_for_backward(predictions, targets, margins)
        sums = margins.clamp(min=0)
        while sums.numel() > 1:
            half = (sums.numel() + 1) // 2
            sums = sums[:half] + torch.nn.functional.pad(sums[half:], (0, 2 * half - sums.numel()))
        return sums[0] / margins.numel()

    @staticmethod
    def backward(ctx, cotangent):
        predictions, targets, margins = ctx.saved_tensors
        slope = (margins >= 0) * (-cotangent / margins.numel())
        return slope * targets, slope * predictions


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        return Hinge.apply(predictions, targets)
