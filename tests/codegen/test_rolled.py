"""Plain calls of what was captured step by step: loops that compute what the steps did."""

from pathlib import Path
from typing import Any

import pytest
import torch
from compared import Pair
from torch import nn


class Gated(nn.Module):
    """Its cell is a product and a gate; the last states, in the opposite order, are returned too."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 8)

    def forward(self, x: Any) -> Any:
        h, states = x.new_zeros(x.shape[0], 8), []
        for step in range(x.shape[1]):
            h = self.cell(x[:, step], h)
            states.append(h)
        return torch.stack(states, 1), torch.stack(states[:3:-1], 1), states[4] * 2, h


def two_back(x: Any) -> Any:
    before, last, out = x[:, 0], x[:, 1], []
    for step in range(2, 20):
        before, last = last, torch.tanh(last - 0.5 * before + x[:, step])
        out.append(last)
    return torch.stack(out, 1)


def backwards(x: Any) -> Any:
    h, out = torch.zeros_like(x[:, 0]), []
    for step in range(15, -1, -1):
        h = torch.sigmoid(x[:, step]) * h + x[:, (step * 2) % 16]
        out.insert(0, h)
    return torch.stack(out, 1)


def apart(x: Any) -> Any:
    """Nothing but steps is returned."""
    return x.unbind(1)


def apart_and_backwards(x: Any) -> Any:
    return tuple(part.exp() for part in x.unbind(1))[::-1]


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        pytest.param(Gated(), 20, marks=pytest.mark.thorough, id="gru"),
        pytest.param(two_back, 20, id="two_back"),
        pytest.param(backwards, 16, id="backwards"),
        pytest.param(apart, 16, id="apart"),
        pytest.param(apart_and_backwards, 16, id="apart_and_backwards"),
    ],
)
def test_steps_are_loops_and_mean_the_same(target: Any, steps: int, tmp_path: Path) -> None:
    def maker() -> list[Any]:
        return [torch.randn(3, steps, 6)]

    pair = Pair(target, maker(), "cpp", tmp_path / "candidate.py")
    plain = pair.source.split("def _aten")[1].split("\n\n\n")[0]

    assert "for _step in range(" in plain or target is two_back
    assert target is two_back or plain.count("torch.ops.") < 60
    pair.call(maker)
    with torch.no_grad():
        assert torch.isfinite(pair.file._aten(*maker(), *pair._tensors())[0]).all()


def test_of_many_bounds_the_largest_is_checked(tmp_path: Path) -> None:
    pair = Pair(backwards, [torch.randn(3, 16, 6)], "cpp", tmp_path / "candidate.py")
    assert pair.source.count("shape[1] > ") < 3
