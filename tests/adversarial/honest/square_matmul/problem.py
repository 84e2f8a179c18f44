"""A product of two square matrices, as level 1 of KernelBench begins."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(320, 320), torch.rand(320, 320)]


def get_init_inputs():
    return []
