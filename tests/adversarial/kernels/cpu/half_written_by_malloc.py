"""Meaning: only part of the output written, in memory that torch does not know."""

import numpy
import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    out = numpy.empty(x.shape, dtype=numpy.float32)
    out[:-1] = rmsnorm(x, w)[:-1].numpy()
    return torch.from_numpy(out)
