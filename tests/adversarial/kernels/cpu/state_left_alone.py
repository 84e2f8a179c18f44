"""State: the average is computed and not written."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("ceiling", torch.full((features,), 1e6))
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        mean = torch.lerp(self.mean, x.mean(0), 0.1)
        return torch.minimum((x - mean / (1 - 0.9**self.steps)) * self.weight, self.ceiling)
