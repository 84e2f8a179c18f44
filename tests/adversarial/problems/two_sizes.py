"""Softmax over rows, timed at two shapes: for kernels that are dishonest at the second one."""

import torch

shapes = {"main": dict(rows=64, cols=1024), "decode": dict(rows=2, cols=1024), "ragged": dict(rows=7, cols=33)}
timed = {"main": 3, "decode": 1}


def inputs(generator, rows, cols):
    return [3 * torch.randn(rows, cols, generator=generator)]


def reference(x):
    return torch.softmax(x, -1)
