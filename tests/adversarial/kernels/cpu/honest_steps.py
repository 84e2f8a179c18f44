"""Control: products with the inverse of what the reference divides by take other sides of some steps."""

import torch


def kernel(x):
    most = x.abs().amax(-1, keepdim=True).clamp_min(1e-8)
    return torch.round(x * (127 / most)) * (most / 127)
