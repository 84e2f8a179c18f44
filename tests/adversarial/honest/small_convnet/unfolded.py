"""Convolutions as products of unfolded windows; pooling before ReLU, which gives the same."""

import torch
import torch.nn.functional as F
from torch import nn


def convolved(x, conv):
    size = conv.kernel_size[0]
    columns = F.unfold(x, size).mT
    out = F.linear(columns, conv.weight.flatten(1), conv.bias)
    return out.mT.unflatten(-1, (x.shape[2] - size + 1, -1))


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 12, 5)
        self.fc1, self.fc2 = nn.Linear(12 * 4 * 4, 60), nn.Linear(60, classes)

    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = torch.relu(convolved(x, conv).unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2)).amax((-1, -3)))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))
