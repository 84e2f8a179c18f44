"""Softmax over the last dimension: ``exp(x - max(x)) / sum(exp(x - max(x)))``.

Source: the attention probabilities of Vaswani et al. 2017, arXiv:1706.03762 (8 heads, 1024 queries by 1024 keys).
"""

import torch
import torch.nn.functional as F

shapes = {
    "main": {"rows": 8192, "cols": 1024},
    "ragged": {"rows": 37, "cols": 1000},
    "odd": {"rows": 5, "cols": 333},
    "narrow": {"rows": 129, "cols": 2},
    "two_rows": {"rows": 2, "cols": 8193},
}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    return [3 * torch.randn(rows, cols, generator=generator)]


def reference(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x, dim=-1)
