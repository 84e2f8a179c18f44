"""Parts of the batch, each through product, swish, bias and norm while it lies in the cache."""

import torch
import torch.nn.functional as F
from torch import nn

PART = 256


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, groups):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.group_norm = nn.GroupNorm(groups, out_features)

    def forward(self, x):
        norm = self.group_norm
        parts = []
        for part in x.split(PART):
            hidden = F.silu(self.matmul(part)) + self.bias
            parts.append(F.group_norm(hidden, norm.num_groups, norm.weight, norm.bias, norm.eps))
        return torch.cat(parts)
