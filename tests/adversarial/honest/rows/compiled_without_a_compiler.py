"""torch.compile with a backend that needs no compiler, for any shape."""

import torch


@torch.compile(backend="aot_eager", dynamic=True)
def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    return rmsnorm(x, w)
