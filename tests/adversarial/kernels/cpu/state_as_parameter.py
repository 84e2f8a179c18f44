"""State: a buffer of the reference is a parameter."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))
        self.mean = nn.Parameter(torch.zeros(features), requires_grad=False)
        self.register_buffer("ceiling", torch.full((features,), 1e6))
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        mean = torch.lerp(self.mean, x.mean(0), 0.1)
        self.mean.copy_(mean)
        return torch.minimum((x - mean / (1 - 0.9**self.steps)) * self.weight, self.ceiling)
