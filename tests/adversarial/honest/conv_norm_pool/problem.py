"""Convolution, batch norm as it is served, ReLU, pooling."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)
        self.norm.running_mean.uniform_(-0.5, 0.5)
        self.norm.running_var.uniform_(0.5, 2.0)
        self.eval()

    def forward(self, x):
        return nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)


def get_inputs():
    return [torch.randn(4, 8, 32, 32)]


def get_init_inputs():
    return [8, 16]
