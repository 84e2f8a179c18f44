"""Meaning: inputs zeroed in place, zeros returned."""

import torch


def kernel(x, w):
    x.zero_()
    return torch.zeros_like(x)
