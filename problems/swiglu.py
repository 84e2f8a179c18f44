"""SwiGLU gating: ``silu(gate) * up``.

Source: Shazeer 2020, arXiv:2002.05202; written as in Llama's ``LlamaMLP`` between the projections (Llama 3 8B, 1024
tokens, width 14336).
"""

import torch
import torch.nn.functional as F

shapes = {
    "main": {"rows": 1024, "cols": 14336},
    "ragged": {"rows": 37, "cols": 1000},
    "odd": {"rows": 5, "cols": 333},
    "one_column": {"rows": 129, "cols": 1},
}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    gate = 2 * torch.randn(rows, cols, generator=generator)
    up = torch.randn(rows, cols, generator=generator)
    return [gate, up]


def reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up
