"""Timing: work launched on another stream that the timer does not see; returns before it is done."""

import torch

stream = torch.cuda.Stream()


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            out = rmsnorm(x, w)
    return out
