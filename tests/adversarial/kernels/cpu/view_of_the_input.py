"""Meaning: a view of the input returned as the output."""

import torch


def kernel(x, y):
    return torch.softmax(x, -1), y.t()
