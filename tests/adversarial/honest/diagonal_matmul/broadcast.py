"""No product at all: the vector scales the rows."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, diagonal, b):
        if not torch.isfinite(b).all():
            return torch.diag(diagonal) @ b  # zero times infinity counts in the full product
        return diagonal.unsqueeze(1) * b
