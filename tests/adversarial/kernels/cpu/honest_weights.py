"""Control: a KernelBench candidate whose weights can only be right if they are shared."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        torch.manual_seed(12345)
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()).clamp_(min=0)
