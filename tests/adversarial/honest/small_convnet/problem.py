"""Two convolutions with pooling and two linear layers, in the manner of LeNet."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 12, 5)
        self.fc1, self.fc2 = nn.Linear(12 * 4 * 4, 60), nn.Linear(60, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def get_inputs():
    return [torch.randn(16, 1, 28, 28)]


def get_init_inputs():
    return [10]
