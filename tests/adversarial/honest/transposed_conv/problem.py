"""A transposed convolution with a stride."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, filters, size, stride):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(channels, filters, size, stride=stride)

    def forward(self, x):
        return self.conv_transpose(x)


def get_inputs():
    return [torch.randn(4, 16, 16, 16)]


def get_init_inputs():
    return [16, 8, 3, 2]
