"""RMSNorm over rows: small, so that a verdict costs little; most cheats are written for it."""

import torch

shapes = {"main": dict(rows=64, cols=512), "ragged": dict(rows=7, cols=33)}


def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.rand(cols, generator=generator)]


def reference(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
