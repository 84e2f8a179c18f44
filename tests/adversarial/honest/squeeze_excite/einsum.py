"""Means and products by einsum, the weights expanded over the image."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.down, self.up = nn.Linear(channels, reduced), nn.Linear(reduced, channels)

    def forward(self, x):
        means = torch.einsum("nchw->nc", x) / x[0, 0].numel()
        hidden = torch.relu(torch.einsum("nc,rc->nr", means, self.down.weight) + self.down.bias)
        weights = torch.sigmoid(torch.einsum("nr,cr->nc", hidden, self.up.weight) + self.up.bias)
        return torch.mul(x, weights[:, :, None, None].expand_as(x))
