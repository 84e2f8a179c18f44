"""Products into scratch that is kept for each batch size; the last one is a fresh output."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )
        self._scratch = {}

    def forward(self, x):
        if torch.is_grad_enabled():
            return self.network(x)
        first, second, last = self.network[::2]
        key = (len(x), x.dtype)
        if key not in self._scratch:
            self._scratch[key] = [torch.empty(len(x), layer.out_features, dtype=x.dtype) for layer in (first, second)]
        one, two = self._scratch[key]
        torch.addmm(first.bias, x, first.weight.t(), out=one).relu_()
        torch.addmm(second.bias, one, second.weight.t(), out=two).relu_()
        return torch.addmm(last.bias, two, last.weight.t())
