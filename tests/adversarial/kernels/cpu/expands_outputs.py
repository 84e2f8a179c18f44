"""Meaning: all heads share one row of memory, where the reference writes each."""

import torch


def kernel(x, heads):
    return torch.softmax(x, -1)[:, None].expand(-1, heads, -1)
