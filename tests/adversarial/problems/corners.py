"""Numbers beside the corners of a ReLU and of a maximum: the gradients hang on a rounding, in float32."""

import torch
from torch.nn import functional as F

shapes = {"main": dict(rows=64, cols=640), "small": dict(rows=32, cols=640)}


def inputs(generator, rows, cols):
    x = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    hidden = cols * 4 // 5
    w = torch.randn(cols, hidden, generator=generator, dtype=torch.float64) / cols**0.5
    v = torch.randn(hidden // 2, 32, generator=generator) / (hidden // 2) ** 0.5
    first, pair = w[:, 0].float().double(), (w[:, 2].float() - w[:, 3].float()).double()
    x[:3] -= torch.outer(x[:3] @ first / (first @ first), first)
    x[3:6] -= torch.outer(x[3:6] @ pair / (pair @ pair), pair)
    # The first is the larger number of its pair, and the equal ones are positive.
    x[:3] *= -torch.sign(x[:3] @ w[:, 1]).unsqueeze(1)
    x[3:6] *= torch.sign(x[3:6] @ w[:, 2]).unsqueeze(1)
    return [x.float(), w.float(), v]


def reference(x, w, v):
    return F.max_pool1d(F.relu(x @ w), 2) @ v
