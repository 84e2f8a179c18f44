"""Halves of the batch in a pool of two threads that is kept."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class ModelNew(nn.Module):
    pool = ThreadPoolExecutor(2)

    def __init__(self, features, hidden, classes):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )

    def half(self, x, is_training):
        with torch.set_grad_enabled(is_training):
            return self.network(x)

    def forward(self, x):
        mode = torch.is_grad_enabled()
        return torch.cat(list(self.pool.map(lambda part: self.half(part, mode), x.chunk(2))))
