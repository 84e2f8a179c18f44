"""In place on one fresh copy."""

import math

import torch
from torch import nn


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        y = x * x
        y.mul_(0.044715).add_(1.0).mul_(x).mul_(math.sqrt(2.0 / math.pi))
        return y.tanh_().add_(1.0).mul_(x).mul_(0.5)
