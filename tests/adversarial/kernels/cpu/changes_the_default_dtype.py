"""Meaning: what tensors of others are made as is changed."""

import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    torch.set_default_dtype(torch.float64)
    return rmsnorm(x, w)
