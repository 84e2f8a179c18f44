"""State: the running variance is the biased one."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        norm = self.norm
        variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(variance, norm.momentum)
        norm.num_batches_tracked += 1
        return torch.relu(F.batch_norm(x, None, None, norm.weight, norm.bias, True))
