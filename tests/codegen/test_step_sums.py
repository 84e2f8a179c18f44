"""Loops over time whose steps sum over dimensions: one kernel, right at other sizes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from compared import Pair
from steps_that_sum import CASES, STEPS, Cells
from torch import nn

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.codegen.lowering.normal import normalise
from kernelswarm.hardware.capture.capture import capture


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def strided(values: list[Any]) -> list[Any]:
    return [value.transpose(0, -1).contiguous().transpose(0, -1) for value in values]


def single(name: str, values: list[Any]) -> list[Any]:
    """The inputs with a batch of one."""
    return [value[:, :1] if name == "spelled_out" and value.ndim == 3 else value[:1] for value in values]


MANY = {"linear_attention", "delta_rule", "selective_scan", "gru_cell"}
"""One of every kind; the others are like them."""
EACH = [pytest.param(name, marks=() if name in MANY else pytest.mark.thorough) for name in CASES]


@pytest.mark.parametrize("name", EACH)
def test_steps_that_sum_are_one_kernel_and_right_at_any_size(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    target, main, other = CASES[name]
    pair = Pair(target, main(), "cpp", tmp_path / "candidate.py")

    assert "ks.steps" in pair.source
    assert len(pair.source.splitlines()) < 1500
    pair.call(main, falls_back=False)
    pair.call(other, falls_back=False)
    pair.call(lambda: strided(other()), falls_back=False)
    # One row of a batch: captured sizes are at least two.
    pair.call(lambda: single(name, main()))


class Uneven(Cells):
    """The last step reads another row."""

    def forward(self, x: Any) -> Any:
        h = x.new_zeros(x.shape[0], self.cell.hidden_size)
        outputs = []
        for t in range(STEPS):
            h = self.cell(x[:, t if t + 1 < STEPS else 2], h)
            outputs.append(h)
        return torch.stack(outputs, 1)


@pytest.mark.parametrize(
    "target",
    [Cells(nn.RNNCell, 300), Cells(nn.RNNCell).to(torch.bfloat16), Uneven(nn.RNNCell)],
    ids=["large weights", "bfloat16", "uneven"],
)
def test_what_no_kernel_takes_is_left_as_it_is(target: Any) -> None:
    rows = torch.randn(4, STEPS, 7, dtype=next(target.parameters()).dtype)
    with torch.no_grad():
        graph = capture(target, [rows])

    assert normalise(graph, on_processor=True, sums=True) == normalise(graph, on_processor=True)
    assert all(node.target != "ks.steps" for node in plan_of(graph, Settings()).graph.nodes)
