"""Meaning: one static buffer returned as every output."""

import torch

buffers = {}


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    out = buffers.setdefault(x.shape, torch.empty_like(x))
    out.copy_(rmsnorm(x, w))
    return out
