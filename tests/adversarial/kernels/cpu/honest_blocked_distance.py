"""Control: sums of blocks of columns in single precision."""

import torch


def kernel(x, y):
    sums = [(one - other).square().sum() for one, other in zip(x.split(64, -1), y.split(64, -1), strict=True)]
    return torch.stack(sums).sum() / x.numel()
