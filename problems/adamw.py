"""One AdamW step on one parameter: new parameter, first and second moment.

Source: Loshchilov and Hutter 2017, arXiv:1711.05101, algorithm 2; written as in the many trainers that carry their own
optimizer (one weight matrix of a 2048 wide model, the betas of Llama).
"""

import torch

LEARNING_RATE = 1e-3
BETA1 = 0.9
BETA2 = 0.95
EPS = 1e-8
DECAY = 0.1
STEP = 100

shapes = {
    "main": {"rows": 2048, "cols": 2048},
    "ragged": {"rows": 37, "cols": 1000},
    "odd": {"rows": 5, "cols": 333},
    "one_column": {"rows": 129, "cols": 1},
}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    parameter = torch.randn(rows, cols, generator=generator)
    gradient = torch.randn(rows, cols, generator=generator)
    first = 0.3 * torch.randn(rows, cols, generator=generator)
    second = 0.1 + torch.rand(rows, cols, generator=generator)
    return [parameter, gradient, first, second]


def reference(
    parameter: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    first = BETA1 * first + (1 - BETA1) * gradient
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    first_hat = first / (1 - BETA1**STEP)
    second_hat = second / (1 - BETA2**STEP)
    parameter = parameter * (1 - LEARNING_RATE * DECAY)
    parameter = parameter - LEARNING_RATE * first_hat / (torch.sqrt(second_hat) + EPS)
    return parameter, first, second
