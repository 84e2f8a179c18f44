"""NumPy's sliding windows over a padded copy."""

import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size, stride, padding):
        super().__init__()
        self.size, self.stride, self.padding = size, stride, padding

    def forward(self, x):
        padded = np.pad(x.numpy(), ((0, 0), (0, 0), (self.padding, self.padding)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.size, -1)[:, :, :: self.stride]
        return torch.from_numpy(windows.mean(-1, dtype=np.float32))
