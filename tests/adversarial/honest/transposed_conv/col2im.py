"""One product, then col2im by ``fold``."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, filters, size, stride):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(channels, filters, size, stride=stride)

    def forward(self, x):
        conv = self.conv_transpose
        size, stride = conv.kernel_size[0], conv.stride[0]
        columns = torch.matmul(conv.weight.flatten(1).t(), x.flatten(2))
        extent = [(one - 1) * stride + size for one in x.shape[2:]]
        return F.fold(columns, extent, size, stride=stride) + conv.bias[:, None, None]
