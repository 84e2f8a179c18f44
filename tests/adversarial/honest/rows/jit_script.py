"""TorchScript, which profiles its first calls and then runs another plan."""

import torch


@torch.jit.script
def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return x * scale * w


def kernel(x, w):
    return rmsnorm(x, w)
