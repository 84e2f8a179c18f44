"""Optimised factorisation machine in half precision, for a GPU: ``x (x^T y)`` for every sample.

Source: WuKong's OptFM (Zhang et al. 2024, arXiv:2403.02545), a case study of KernelEvolve (Meta, 2025) at its published
shape: (B, N, D, K) = (1024, 24, 224, 2198); the other two are (1024, 40, 224, 448) and (1024, 48, 224, 448).
"""

import torch

shapes = {
    "main": {"batch": 1024, "features": 24, "width": 224, "compressed": 2198},
    "ragged": {"batch": 3, "features": 7, "width": 50, "compressed": 33},
    "one_feature": {"batch": 4, "features": 1, "width": 16, "compressed": 24},
    "more_features": {"batch": 2, "features": 48, "width": 224, "compressed": 301},
}


def inputs(generator: torch.Generator, batch: int, features: int, width: int, compressed: int) -> list[torch.Tensor]:
    x = torch.randn(batch, features, width, generator=generator) * width**-0.5
    y = torch.randn(batch, features, compressed, generator=generator)
    return [x.half(), y.half()]


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))
