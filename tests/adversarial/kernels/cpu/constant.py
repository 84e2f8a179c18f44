"""Meaning: a constant where the problem is degenerate."""

import torch


def kernel(x):
    return torch.ones_like(x)
