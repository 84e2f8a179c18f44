"""NumPy, in slices whose size depends on the layout that the input comes in."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        if x.is_contiguous():
            return torch.from_numpy(x.numpy().argmax(self.dim))
        return torch.stack([torch.from_numpy(part.numpy().argmax(self.dim - 1)) for part in x])
