"""Scores beside a causal mask: half of the answer is always zero."""

import torch

shapes = {"main": dict(rows=512), "ragged": dict(rows=37)}


def inputs(generator, rows):
    return [torch.randn(rows, rows, generator=generator)]


def reference(x):
    return torch.tril(torch.exp(x))
