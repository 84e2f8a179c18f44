"""Windows as a strided view of a padded copy, then two maxima."""

import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size, stride, padding, dilation):
        super().__init__()
        self.size, self.stride, self.padding, self.dilation = size, stride, padding, dilation

    def forward(self, x):
        x = F.pad(x, [self.padding] * 4, value=float("-inf")).contiguous()
        span = self.dilation * (self.size - 1)
        rows, cols = ((extent - span - 1) // self.stride + 1 for extent in x.shape[2:])
        batch, channel, row, col = x.stride()
        windows = x.as_strided(
            (*x.shape[:2], rows, cols, self.size, self.size),
            (batch, channel, row * self.stride, col * self.stride, row * self.dilation, col * self.dilation),
        )
        return windows.amax(-1).amax(-1)
