"""Meaning: the mode of the processor that rounds small numbers to zero is left behind."""

import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    torch.set_flush_denormal(True)
    return rmsnorm(x, w)
