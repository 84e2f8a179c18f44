"""Two passes, the mean expanded over the image without a copy."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.eps = 1e-5

    def forward(self, x):
        mean = x.mean((2, 3), keepdim=True).expand_as(x)
        centred = torch.sub(x, mean)
        variance = torch.linalg.vector_norm(centred, dim=(2, 3), keepdim=True).square() / x[0, 0].numel()
        return centred * torch.rsqrt(variance + self.eps)
