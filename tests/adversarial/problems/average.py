"""A module whose answer depends on what earlier calls left: a moving average in a buffer, and a counter."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("ceiling", torch.full((features,), 1e6))
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return torch.minimum((x - self.mean / (1 - 0.9**self.steps)) * self.weight, self.ceiling)


def get_inputs():
    return [torch.randn(64, 96) + 0.5]


def get_init_inputs():
    return [96]
