"""Both outputs lie in one fresh buffer."""

import torch


@torch.no_grad()
def kernel(x, residual, weight, bias):
    out = torch.empty(2, *x.shape, dtype=x.dtype)
    normed, total = out
    torch.add(residual, x, out=total)
    variance, mean = torch.var_mean(total, -1, correction=0, keepdim=True)
    torch.sub(total, mean, out=normed)
    normed.mul_((variance + 1e-5).rsqrt_()).mul_(weight).add_(bias)
    return normed, total
