"""RMSNorm over the last dimension: ``x / sqrt(mean(x**2) + eps) * weight``.

Source: Zhang and Sennrich 2019, arXiv:1910.07467; written as in Llama's ``LlamaRMSNorm`` (hidden size 4096).
"""

import torch

EPS = 1e-6

shapes = {
    "main": {"rows": 2048, "cols": 4096},
    "ragged": {"rows": 37, "cols": 1000},
    "odd": {"rows": 5, "cols": 333},
    "one_column": {"rows": 129, "cols": 1},
    "two_rows": {"rows": 2, "cols": 8193},
}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    x = torch.randn(rows, cols, generator=generator)
    weight = 1 + 0.2 * torch.randn(cols, generator=generator)
    return [x, weight]


def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    variance = x.pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(variance + EPS))
