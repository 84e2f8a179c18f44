"""A convolution as one matrix product for each tap, on shifted views of a padded copy."""

import torch
import torch.nn.functional as F


def kernel(x, weight, bias):
    length, taps = x.shape[-1], weight.shape[-1]
    padded = F.pad(x, (1, 1))
    out = bias[:, None].expand(len(x), -1, length)
    for tap in range(taps):
        taken = weight[:, :, tap].expand(len(x), -1, -1)
        out = torch.baddbmm(out, taken, padded[:, :, tap : tap + length])
    return out
