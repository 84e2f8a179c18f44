"""Residual add, then LayerNorm, returning both: the seam between two pre-norm transformer sublayers.

Source: Ba et al. 2016, arXiv:1607.06450; the pair (normed, residual) is what pre-norm blocks pass on (GPT-2,
flash-attention's ``dropout_add_layer_norm`` with ``prenorm=True``), hidden size 1024 as in GPT-2 medium.
"""

import torch
import torch.nn.functional as F

shapes = {
    "main": {"rows": 4096, "cols": 1024},
    "ragged": {"rows": 37, "cols": 1000},
    "odd": {"rows": 5, "cols": 333},
    "narrow": {"rows": 129, "cols": 3},
    "two_rows": {"rows": 2, "cols": 8193},
}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    x = torch.randn(rows, cols, generator=generator)
    residual = 2 * torch.randn(rows, cols, generator=generator)
    weight = 1 + 0.2 * torch.randn(cols, generator=generator)
    bias = 0.2 * torch.randn(cols, generator=generator)
    return [x, residual, weight, bias]


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    residual = residual + x
    normed = F.layer_norm(residual, (residual.shape[-1],), weight, bias, eps=1e-5)
    return normed, residual
