"""A winner without a search: an operator, a kernel in a few lines, and what a search would have said of them."""

from typing import Any

import torch

from kernelswarm.api.optimized import Optimized
from kernelswarm.api.searching import problem_of
from kernelswarm.sessions.results import SearchResult, Speedup

ROWS = torch.linspace(-1, 1, 4 * 8).reshape(4, 8)

RIGHT = """
calls = 0
def kernel(x, weight):
    global calls
    calls += 1
    return x * weight + 1e-6
"""


class Scale(torch.nn.Module):
    def __init__(self, width: int = 8, shift: float = 1e-6) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, width))
        self.shift = shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.shift


def optimized(
    operator: Any, inputs: list[Any] | dict[str, Any], file: str = RIGHT, *, win: bool = True, **batches: Any
) -> Optimized:
    """As if a search had found the kernel in ``file``; ``batches``: by input the size that its first dimension has."""
    traced = problem_of(operator, inputs, dynamic_shapes={name: {0: size} for name, size in batches.items()})
    result = SearchResult(
        session="scale-abcde",
        problem=traced.problem.name,
        pool="cpu",
        reason="budget",
        detail="n001 is 2.00x (1.90 to 2.10) as fast as torch.compile" if win else "no win found: 0.97x of eager",
        win=win,
        best="n001",
        source=file,
        speedup=Speedup(median=2.0, low=1.9, high=2.1, against="compile"),
    )
    return Optimized(result, traced, file)


def calls_of(result: Optimized) -> int:
    """How often the kernel itself was called."""
    return int(result._call._kernel.__globals__["calls"])  # type: ignore[attr-defined]
