"""Instance norm over images."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.inorm = nn.InstanceNorm2d(channels)

    def forward(self, x):
        return self.inorm(x)


def get_inputs():
    return [torch.rand(8, 16, 32, 32)]


def get_init_inputs():
    return [16]
