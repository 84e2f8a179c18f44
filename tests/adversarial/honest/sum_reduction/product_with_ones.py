"""A product with a row of ones, which is kept for each length."""

import functools

import torch
from torch import nn


@functools.cache
def ones(count, dtype):
    return torch.ones(1, count, dtype=dtype)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.matmul(ones(x.shape[self.dim], x.dtype), x)
