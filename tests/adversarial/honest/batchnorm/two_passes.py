"""Statistics in two passes over a permuted view; running statistics as the layer keeps them."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        norm = self.norm
        columns = x.permute(1, 0, 2, 3).flatten(1)
        mean = columns.mean(1)
        centred = columns - mean[:, None]
        variance = centred.square().mean(1)
        with torch.no_grad():
            count = columns.shape[1]
            norm.num_batches_tracked += 1
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)
        scale = norm.weight * torch.rsqrt(variance + norm.eps)
        rows = torch.relu(centred * scale[:, None] + norm.bias[:, None])
        return rows.unflatten(1, (len(x), *x.shape[2:])).transpose(0, 1)
