"""Rows in 127 steps of their largest number: among a million numbers some lie beside a step in any precision."""

import torch

shapes = {"main": dict(rows=1024, cols=1024), "ragged": dict(rows=7, cols=33)}


def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]


def reference(x):
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127
    return torch.round(x / scale) * scale
