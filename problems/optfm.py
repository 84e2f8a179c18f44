"""Optimised factorisation machine: ``x (x^T y)`` for every sample, two products in a row.

Source: WuKong's OptFM (Zhang et al. 2024, arXiv:2403.02545), a case study of KernelEvolve (Meta, 2025): there 1024
samples in half precision, see ``optfm_half``; here fp32 and 32 samples, which fits two CPU cores.
"""

import torch

shapes = {
    "main": {"batch": 32, "features": 40, "width": 224, "compressed": 448},
    "ragged": {"batch": 3, "features": 7, "width": 50, "compressed": 33},
    "one_feature": {"batch": 4, "features": 1, "width": 16, "compressed": 24},
    "long": {"batch": 2, "features": 24, "width": 20, "compressed": 301},
}


def inputs(generator: torch.Generator, batch: int, features: int, width: int, compressed: int) -> list[torch.Tensor]:
    x = torch.randn(batch, features, width, generator=generator) * width**-0.5
    y = torch.randn(batch, features, compressed, generator=generator)
    return [x, y]


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))
