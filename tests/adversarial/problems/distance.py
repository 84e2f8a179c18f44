"""Mean squared error, 16 MiB at the timed shape: errors of single elements average out on usual inputs."""

import torch
import torch.nn.functional as F

shapes = {"main": dict(rows=512, cols=4096), "ragged": dict(rows=37, cols=1000)}


def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator) for _ in range(2)]


def reference(x, y):
    return F.mse_loss(x, y)
