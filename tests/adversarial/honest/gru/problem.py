"""A GRU over a sequence."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.gru = nn.GRU(features, hidden)

    def forward(self, x, h):
        return self.gru(x, h)


def get_inputs():
    return [torch.randn(24, 8, 32), torch.randn(1, 8, 48)]


def get_init_inputs():
    return [32, 48]
