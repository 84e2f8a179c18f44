"""Bias add, then GELU in its tanh form: ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))``.

Source: Hendrycks and Gimpel 2016, arXiv:1606.08415; written as in GPT-2's ``NewGELUActivation`` (GPT-2 medium, width
4096, two sequences of 1024 tokens).
"""

import math

import torch

shapes = {
    "main": {"rows": 2048, "cols": 4096},
    "ragged": {"rows": 37, "cols": 1000},
    "odd": {"rows": 5, "cols": 333},
    "one_column": {"rows": 129, "cols": 1},
}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    x = 2 * torch.randn(rows, cols, generator=generator)
    bias = torch.randn(cols, generator=generator)
    return [x, bias]


def reference(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    x = x + bias
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
