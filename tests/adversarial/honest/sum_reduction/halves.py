"""Pairwise: the upper half is added to the lower one until one row is left."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        while (count := x.shape[self.dim]) > 1:
            half = count // 2
            rest = x.narrow(self.dim, 2 * half, count % 2)
            x = x.narrow(self.dim, 0, half) + x.narrow(self.dim, half, half)
            if count % 2:
                x.narrow(self.dim, 0, 1).add_(rest)
        return x
