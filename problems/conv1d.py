"""Convolution over one dimension with a bias: 96 channels to 96 filters, three taps, padding 1.

Source: a case study of KernelEvolve (Meta, 2025): there in fp16 with batches of 64 to 2048, see ``conv1d_half``; here
fp32 and the smallest batch, which fits two CPU cores.
"""

import torch
import torch.nn.functional as F

shapes = {
    "main": {"batch": 64, "channels": 96, "filters": 96, "length": 200},
    "ragged": {"batch": 3, "channels": 37, "filters": 29, "length": 51},
    "two_images": {"batch": 2, "channels": 16, "filters": 24, "length": 40},
    "short": {"batch": 5, "channels": 20, "filters": 16, "length": 2},
}


def inputs(generator: torch.Generator, batch: int, channels: int, filters: int, length: int) -> list[torch.Tensor]:
    x = torch.randn(batch, channels, length, generator=generator)
    weight = torch.randn(filters, channels, 3, generator=generator) * (3 * channels) ** -0.5
    bias = 0.5 * torch.randn(filters, generator=generator)
    return [x, weight, bias]


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x, weight, bias, padding=1)
