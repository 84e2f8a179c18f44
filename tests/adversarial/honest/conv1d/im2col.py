"""im2col by a strided view, one einsum over channels and taps."""

import torch
import torch.nn.functional as F


def kernel(x, weight, bias):
    windows = F.pad(x, (1, 1)).unfold(-1, weight.shape[-1], 1)
    return torch.einsum("bclk,fck->bfl", windows, weight).add_(bias[:, None])
