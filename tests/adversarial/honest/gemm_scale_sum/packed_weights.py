"""Weights are packed once for each version of the parameter, and again after a checkpoint is loaded."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden, factor):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.factor = factor
        self._packed, self._of = None, None

    def packed(self):
        of = (self.weight.data_ptr(), self.weight._version)
        if self._of != of:
            self._packed, self._of = (self.weight.detach() * 0.5).t().contiguous(), of
        return self._packed

    def forward(self, x):
        weight = (self.weight * 0.5).t() if torch.is_grad_enabled() else self.packed()
        hidden = x @ weight
        return torch.einsum("bh,bh->b", hidden, hidden)[:, None] * self.factor
