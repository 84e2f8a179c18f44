"""Recurrences that are captured step by step: one loop, right at other sizes, in either direction."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compared import Pair

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.loops import RecurrentKernel
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.hardware.capture.capture import capture


def gated(x: Any, gate: Any) -> Any:
    h, steps = torch.zeros_like(x[:, 0]), []
    for t in range(12):
        a = torch.sigmoid(gate[:, t])
        h = a * h + (1 - a) * x[:, t]
        steps.append(h)
    return torch.stack(steps, 1), h * 2


def written(x: Any, decay: Any) -> Any:
    h = torch.zeros_like(x)
    for t in range(12):
        h[:, t] = torch.exp(-torch.exp(decay[0, 0])) * h[:, t - 1] + x[:, t]
    return torch.relu(h)


def from_its_first(x: Any, gate: Any) -> Any:
    h = x[:, 0]
    steps = [h.unsqueeze(1)]
    for t in range(1, 12):
        h = torch.maximum(h * 0.9, x[:, t] - gate[:, t - 1])
        steps.append(h.unsqueeze(1))
    return torch.cat(steps, 1) * gate


def backwards(x: Any, gate: Any) -> Any:
    h, steps = x[:, -1], []
    for t in reversed(range(12)):
        h = torch.tanh(h + x[:, t] * gate[:, t])
        steps.insert(0, h)
    return torch.stack(steps, 1)


def two_states(x: Any, gate: Any) -> Any:
    c = n = torch.zeros_like(x[:, 0])
    steps = []
    for t in range(12):
        c, n = c * 0.5 + x[:, t], n * 0.5 + gate[:, t].abs()
        steps.append(c / (n + 1))
    return torch.stack(steps, -1)


def of_neighbours(x: Any, gate: Any) -> Any:
    """No loop over points: a step reads its neighbour's state."""
    h, steps = x[:, 0], []
    for t in range(12):
        h = torch.flip(h, (-1,)) * 0.5 + x[:, t]
        steps.append(h)
    return torch.stack(steps, 1)


def unequal(x: Any, gate: Any) -> Any:
    """No recurrence: the last step is another."""
    h, steps = x[:, 0], []
    for t in range(12):
        h = h * 0.5 + (x[:, t] if t < 11 else x[:, 3])
        steps.append(h)
    return torch.stack(steps, 1)


def with_a_state_outside(x: Any, gate: Any) -> Any:
    """No loop: a state that is not among the results is one itself."""
    c, steps = torch.zeros_like(x[:, 0]), []
    for t in range(12):
        c = c * 0.5 + x[:, t]
        steps.append(torch.tanh(c))
    return torch.stack(steps, 1), c


LOOPS = (gated, written, from_its_first, backwards, two_states)
OTHERS = (of_neighbours, unequal, with_a_state_outside)


def inputs(rows: int, width: int) -> list[Any]:
    return [torch.randn(rows, 12, width), torch.randn(rows, 12, width)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("function", [*LOOPS, *OTHERS], ids=lambda function: function.__name__)
def test_a_recurrence_is_right_for_any_rows(function: Callable[..., Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    pair = Pair(function, inputs(3, 40), "cpp", tmp_path / "candidate.py")

    pair.call(lambda: inputs(3, 40), falls_back=False)
    pair.call(lambda: inputs(2, 1000))
    pair.call(lambda: [value.transpose(0, 2).contiguous().transpose(0, 2) for value in inputs(5, 3)])


@pytest.mark.parametrize("function", [*LOOPS, *OTHERS], ids=lambda function: function.__name__)
def test_steps_are_one_loop_where_they_are_alike(function: Callable[..., Any]) -> None:
    plan = plan_of(capture(function, inputs(3, 40)), Settings())
    loops = [kernel for kernel in plan.kernels if isinstance(kernel, RecurrentKernel)]

    assert len(loops) == (function in LOOPS)
    assert not plan.externs
