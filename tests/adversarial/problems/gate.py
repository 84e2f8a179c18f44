"""A gate, forward and backward pass."""

import torch

backward = True
shapes = {"main": dict(rows=256, cols=512), "ragged": dict(rows=7, cols=33)}


def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator) for _ in range(2)]


def reference(x, y):
    return x * torch.sigmoid(y)
