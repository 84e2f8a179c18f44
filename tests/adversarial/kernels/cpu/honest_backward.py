"""A kernel without a graph, and its backward pass beside it."""

import torch


def normalised(x):
    return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@torch.no_grad()
def kernel(x, w):
    return x * normalised(x) * w


def backward(x, w, cotangent):
    r = normalised(x)
    y, g = x * r, cotangent * w
    return r * (g - y * (g * y).mean(-1, keepdim=True)), (cotangent * y).sum(0)
