"""Softmax over rows."""

import torch

shapes = {"main": dict(rows=64, cols=1024), "ragged": dict(rows=7, cols=33)}


def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]


def reference(x):
    return torch.softmax(x, -1)
