"""State: None stands for the running statistics of a layer in training mode."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(F.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True))
