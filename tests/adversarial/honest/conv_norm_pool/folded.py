"""The norm is folded into the convolution at the first call after weights were loaded."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)
        self.eval()
        self._folded = None
        self.register_load_state_dict_post_hook(lambda module, _: setattr(module, "_folded", None))

    def fold(self):
        norm = self.norm
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return self.conv.weight * scale[:, None, None, None], (self.conv.bias - norm.running_mean) * scale + norm.bias

    def forward(self, x):
        if torch.is_grad_enabled():
            weight, bias = self.fold()
        else:
            self._folded = weight, bias = self._folded or self.fold()
        return torch.relu(F.max_pool2d(F.conv2d(x, weight, bias, padding=1), 2))
