"""Channels last: the output is in that layout, too."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size)
        self.bias = nn.Parameter(torch.randn(filters, 1, 1))

    def forward(self, x):
        x = self.conv(x.contiguous(memory_format=torch.channels_last))
        return x.relu_().add_(self.bias) if not torch.is_grad_enabled() else torch.relu(x) + self.bias
