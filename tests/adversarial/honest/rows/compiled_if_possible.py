"""torch.compile as users write it; where the sandbox starts no compiler, it goes on in eager."""

import torch
import torch._dynamo

torch._dynamo.config.suppress_errors = True


@torch.compile(dynamic=True)
def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    return rmsnorm(x, w)
