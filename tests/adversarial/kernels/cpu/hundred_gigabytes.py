"""Attack: a hundred gigabytes."""

import torch


def kernel(x, w):
    return torch.ones(25 * 2**30)
