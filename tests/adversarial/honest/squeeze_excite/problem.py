"""Squeeze and excitation: channels weighted by what a small network says of their means."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.down, self.up = nn.Linear(channels, reduced), nn.Linear(reduced, channels)

    def forward(self, x):
        weights = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return x * weights[:, :, None, None]


def get_inputs():
    return [torch.randn(4, 32, 32, 32)]


def get_init_inputs():
    return [32, 8]
