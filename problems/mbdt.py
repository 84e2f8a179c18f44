"""MBDT: every dense feature to the number of its bucket, ``Y[f, i] = min {k | X[f, i] < B[f, k]}``.

Source: merge-bucketized dense transform, a preprocessing operator of KernelEvolve (Meta, 2025): each feature has its
own sorted borders. A value on a border belongs to the bucket above it.
"""

import torch

shapes = {
    "main": {"features": 128, "batch": 8192, "borders": 255},
    "ragged": {"features": 37, "batch": 1000, "borders": 20},
    "odd": {"features": 3, "batch": 333, "borders": 1001},
    "one_border": {"features": 5, "batch": 129, "borders": 1},
    "one_sample": {"features": 33, "batch": 1, "borders": 63},
}


def inputs(generator: torch.Generator, features: int, batch: int, borders: int) -> list[torch.Tensor]:
    limits = torch.sort(torch.randn(features, borders, generator=generator), dim=-1).values
    x = torch.randn(features, batch, generator=generator)
    # Counts and clipped values fall on borders exactly, where "<" and "<=" differ.
    on_border = limits.gather(1, torch.randint(0, borders, (features, batch), generator=generator))
    return [torch.where(torch.rand(features, batch, generator=generator) < 0.1, on_border, x), limits]


def reference(x: torch.Tensor, borders: torch.Tensor) -> torch.Tensor:
    return torch.searchsorted(borders, x, right=True)
