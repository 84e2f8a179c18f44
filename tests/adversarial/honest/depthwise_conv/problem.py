"""A depthwise convolution with padding."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, size, padding):
        super().__init__()
        self.conv2d = nn.Conv2d(channels, channels, size, padding=padding, groups=channels, bias=False)

    def forward(self, x):
        return self.conv2d(x)


def get_inputs():
    return [torch.randn(4, 24, 32, 32)]


def get_init_inputs():
    return [24, 3, 1]
