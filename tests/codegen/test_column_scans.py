"""Running sums in C++ over a dimension that is not the last: columns side by side, whatever their number and dtype."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compared import Pair

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings

Function = Callable[..., Any]


def integers(*shape: int) -> torch.Tensor:
    return torch.randint(-9, 9, shape)


CASES: dict[str, tuple[Function, list[torch.Tensor]]] = {
    "two dimensions": (lambda x: torch.cumsum(x * 2, 0), [torch.randn(5, 300), torch.randn(70, 3), torch.randn(2, 2)]),
    "the middle": (lambda x: torch.cumsum(x.relu(), 1) + 1, [torch.randn(3, 6, 40), torch.randn(2, 90, 2)]),
    "the first of four": (lambda x: torch.cumsum(x, -4).sin(), [torch.randn(4, 3, 2, 5), torch.randn(2, 7, 5, 90)]),
    "integers": (lambda x: torch.cumsum(x + 1, 0), [integers(7, 20), integers(2, 700)]),
    "truth": (lambda x: torch.cumsum(x > 0, 0), [torch.randn(40, 9), torch.randn(3, 300)]),
    "bfloat16": (lambda x: torch.cumsum(x, 0) * 2, [torch.randn(4, 30).bfloat16(), torch.randn(6, 5).bfloat16()]),
}


@pytest.mark.parametrize("name", CASES)
def test_running_sums_of_columns_are_eager_s(name: str, tmp_path: Path) -> None:
    function, inputs = CASES[name]
    pair = Pair(function, inputs[:1], "cpp", tmp_path / "candidate.py")
    assert not plan_of(pair.graph, Settings()).externs
    first = inputs[0]
    column, nothing = first[(..., *[slice(0, 1)] * (first.ndim - 1))], first[:0]
    for x in (*inputs, column, nothing):
        torch.testing.assert_close(pair.kernel(x), function(x), rtol=1e-4, atol=1e-4)


def test_an_index_out_of_range_inside_is_an_error(tmp_path: Path) -> None:
    def function(x: Any, rows: Any) -> Any:
        return torch.cumsum(x[rows] * 2, 0)

    x, rows = torch.randn(6, 40), torch.tensor([0, -1, 5, 2])
    kernel = Pair(function, [x, rows], "cpp", tmp_path / "candidate.py").kernel
    torch.testing.assert_close(kernel(x, rows), function(x, rows))
    rows[2] = 6
    with pytest.raises(IndexError, match="index 6 is out of bounds for dimension 0 with size 6"):
        kernel(x, rows)


@pytest.mark.parametrize("dim", [0, 1])
def test_long_sums_are_as_exact_as_pytorch_s(dim: int, tmp_path: Path) -> None:
    """PyTorch adds single precision up in double; in single a search's only candidate had wrong numbers."""
    x = torch.randn(3000, 40) if dim == 0 else torch.randn(40, 3000)
    function: Function = lambda x: torch.cumsum(x, dim) * 2  # noqa: E731
    pair = Pair(function, [x], "cpp", tmp_path / "candidate.py")
    assert not plan_of(pair.graph, Settings()).externs
    exact = torch.cumsum(x.double(), dim) * 2
    assert (pair.kernel(x) - exact).abs().max() <= 2 * (function(x) - exact).abs().max()
