"""Statistics in double precision, then in place on a fresh copy."""

import torch


def kernel(x, residual, weight, bias):
    total = residual + x
    variance, mean = torch.var_mean(total.double(), -1, correction=0, keepdim=True)
    normed = total - mean.float()
    normed.mul_((variance + 1e-5).rsqrt().float()).mul_(weight).add_(bias)
    return normed, total
