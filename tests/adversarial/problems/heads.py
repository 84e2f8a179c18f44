"""Scores that are repeated for every head."""

import torch

shapes = {"main": dict(rows=64, cols=256, heads=16), "ragged": dict(rows=7, cols=33, heads=3)}


def inputs(generator, rows, cols, heads):
    return [torch.randn(rows, cols, generator=generator), heads]


def reference(x, heads):
    return torch.softmax(x, -1)[:, None].repeat(1, heads, 1)
