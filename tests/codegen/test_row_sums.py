"""Sums along rows in C++ stay exact where a row is long and its numbers are alike."""

from pathlib import Path

import pytest
import torch
from compared import Pair


def strided(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, ::2].sum((1, 2))


def last(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def everything(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


CASES = {
    "long rows": (last, (2, 1 << 18)),
    "a row with a rest": (last, (3, 70_003)),
    "short rows": (last, (5, 7)),
    "rows of short parts": (strided, (2, 3000, 90)),
    "everything": (everything, (1 << 20,)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_that_are_alike_add_up(name: str, tmp_path: Path) -> None:
    function, shape = CASES[name]
    kernel = Pair(function, [torch.randn(shape)], "cpp", tmp_path / "candidate.py").kernel
    for x in (torch.full(shape, 1.2345678), torch.randn(shape).abs()):
        wanted = function(x.double())
        assert torch.allclose(kernel(x).double(), wanted, rtol=2e-6, atol=0)
