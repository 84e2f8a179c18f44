"""A sum of shifted views of a padded copy, one for each tap, in place on a fresh output."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, size, padding):
        super().__init__()
        self.conv2d = nn.Conv2d(channels, channels, size, padding=padding, groups=channels, bias=False)

    def forward(self, x):
        conv = self.conv2d
        padded = F.pad(x, [conv.padding[0]] * 4)
        height, width = (extent - conv.kernel_size[0] + 1 for extent in padded.shape[2:])
        out = torch.zeros((), dtype=x.dtype)
        for row, taps in enumerate(conv.weight.unbind(2)):
            for column, tap in enumerate(taps.unbind(2)):
                out = out + padded[:, :, row : row + height, column : column + width] * tap[:, :, None]
        return out
