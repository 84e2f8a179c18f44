"""A network of three layers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )

    def forward(self, x):
        return self.network(x)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256, 192, 40]
