"""Control: a kernel that allocates scratch once and uses it again."""

import torch

scratch = {}


def kernel(x, w):
    key = (x.shape, x.dtype)
    if key not in scratch:
        scratch[key] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    squares = torch.mul(x, x, out=scratch[key])
    return x * torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-6) * w
