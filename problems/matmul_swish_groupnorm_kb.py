"""Linear layer, Swish, bias, group norm, in KernelBench's format.

Source: KernelBench (Ouyang et al. 2025, arXiv:2502.10517), level 2, the pattern of problem 37 (matmul, swish, sum,
group norm), with sizes that fit two CPU cores.
"""

import torch
from torch import nn

BATCH = 4096
IN_FEATURES = 128
OUT_FEATURES = 1024
GROUPS = 32


class Model(nn.Module):
    """A linear layer with a fused tail."""

    def __init__(self, in_features: int, out_features: int, groups: int) -> None:
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.group_norm = nn.GroupNorm(groups, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_features) to (batch, out_features)."""
        x = self.matmul(x)
        x = torch.sigmoid(x) * x
        x = x + self.bias
        return self.group_norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs() -> list[int]:
    return [IN_FEATURES, OUT_FEATURES, GROUPS]
