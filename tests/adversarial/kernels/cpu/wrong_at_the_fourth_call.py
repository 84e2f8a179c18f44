"""Meaning: one call of its first ones is wrong, none before it and none after it."""

import torch

calls = []


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    calls.append(1)
    return rmsnorm(x, w) + (0.1 if len(calls) == 4 else 0)
