"""A convolution, ReLU, a bias behind it: the pattern of level 2's first problem."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size)
        self.bias = nn.Parameter(torch.randn(filters, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


def get_inputs():
    return [torch.randn(8, 8, 32, 32)]


def get_init_inputs():
    return [8, 16, 3]
