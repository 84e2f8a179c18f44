"""Meaning: the right answer, and an input zeroed in place."""

import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    out = rmsnorm(x, w)
    x.zero_()
    return out
