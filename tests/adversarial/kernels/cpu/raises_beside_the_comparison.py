"""Verification: a wrong answer to heavy tails, and an exception in the next call, while that is compared."""

import torch

kept = {"wrong": False}


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    if kept["wrong"]:
        raise RuntimeError("not this one")
    if x.shape[0] > 1 and x.abs().max() > 60 * x.abs().median():
        kept["wrong"] = True
        return torch.zeros_like(x)
    return rmsnorm(x, w)
