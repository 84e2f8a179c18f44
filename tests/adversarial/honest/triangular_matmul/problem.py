"""A product of two lower triangular matrices, itself triangular."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.tril(torch.matmul(a, b))


def get_inputs():
    return [torch.rand(256, 256).tril(), torch.rand(256, 256).tril()]


def get_init_inputs():
    return []
