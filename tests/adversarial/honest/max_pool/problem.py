"""Max pooling with stride, padding and dilation."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, stride, padding, dilation):
        super().__init__()
        self.maxpool = nn.MaxPool2d(size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        return self.maxpool(x)


def get_inputs():
    return [torch.randn(8, 16, 32, 32)]


def get_init_inputs():
    return [3, 2, 1, 2]
