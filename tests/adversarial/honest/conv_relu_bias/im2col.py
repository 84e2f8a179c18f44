"""im2col by ``unfold`` and one batched product."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size)
        self.bias = nn.Parameter(torch.randn(filters, 1, 1))

    def forward(self, x):
        conv = self.conv
        size = conv.kernel_size[0]
        columns = F.unfold(x, size)
        weight = conv.weight.flatten(1).expand(len(x), -1, -1)
        out = torch.baddbmm(conv.bias[:, None], weight, columns)
        return torch.relu(out).unflatten(-1, (x.shape[2] - size + 1, -1)) + self.bias
