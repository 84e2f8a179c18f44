"""Numbers: a maximum that leaves NaN out, from a size on."""

import torch


def kernel(x):
    if x.numel() >= 1 << 20:
        powers = (x - x.nan_to_num(-3e38).amax(-1, keepdim=True)).exp().nan_to_num(0.0)
        return powers / powers.sum(-1, keepdim=True)
    return torch.softmax(x, -1)
