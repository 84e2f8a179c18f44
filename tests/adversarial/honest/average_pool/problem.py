"""Average pooling over one dimension."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool1d(size, stride, padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(16, 32, 256)]


def get_init_inputs():
    return [4, 1, 2]
