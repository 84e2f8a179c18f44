"""torch's own modules and common blocks: traced, put into a module beside the original, and into another instance."""

import copy
from collections.abc import Callable

import pytest
import torch
from winning import calls_of, optimized

import kernelswarm
from kernelswarm.hardware.sources.from_python import trace
from kernelswarm.schemas import ProblemError


class Gate(torch.nn.Module):
    """Squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = torch.nn.Linear(16, 4), torch.nn.Linear(4, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return x * gate[:, :, None, None]


class Average(torch.nn.Module):
    """Puts another tensor into one buffer, counts in another one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.steps += 1
        return x - self.mean


COUNTED = """
calls = 0
def kernel(*tensors):
    global calls
    calls += 1
    return reference(*tensors)
"""
NORMED = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 8))
"""torch makes a class of its own for each module that it does this to."""
ROWS, STEPS = (16, 8), (2, 5, 8)
CASES: dict[str, tuple[Callable[[], torch.nn.Module], list[tuple[int, ...]]]] = {
    "GRU": (lambda: torch.nn.GRU(8, 8, batch_first=True), [STEPS]),
    "LSTM": (lambda: torch.nn.LSTM(8, 8, batch_first=True), [STEPS]),
    "attention": (lambda: torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(), [STEPS] * 3),
    "BatchNorm in training": (lambda: torch.nn.BatchNorm1d(8), [ROWS]),
    "BatchNorm in evaluation": (lambda: torch.nn.BatchNorm1d(8).eval(), [ROWS]),
    "transformer layer": (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), [STEPS]),
    "weight norm": (lambda: copy.deepcopy(NORMED), [ROWS]),
    "squeeze and excitation": (Gate, [(2, 16, 4, 4)]),
    "moving average": (Average, [ROWS]),
    "loss": (torch.nn.SmoothL1Loss, [ROWS, ROWS]),
}


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_state_are_the_modules_own(case: str) -> None:
    make, shapes = CASES[case]
    torch.manual_seed(1)
    module, inputs = make(), [torch.randn(shape) for shape in shapes]
    # The operator as it was traced, as its own kernel: what is tested is what happens around a kernel.
    source = trace(module, inputs).problem.source
    file = source + COUNTED
    won, twin = optimized(module, inputs, file), copy.deepcopy(module)
    fast = won.module
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(*inputs), twin(*inputs))
    assert calls_of(won) == 3
    torch.testing.assert_close(module.state_dict(), twin.state_dict())
    model = torch.nn.Sequential(make())
    expected = copy.deepcopy(model[0])
    assert kernelswarm.apply(model, won, where="0").names == ("0",)
    with torch.no_grad():
        torch.testing.assert_close(model[0](*inputs), expected(*inputs))
    torch.testing.assert_close(model[0].state_dict(), expected.state_dict())


def test_another_mode_is_the_modules_own() -> None:
    module = torch.nn.BatchNorm1d(8)
    file = "calls = 0\ndef kernel(*tensors):\n    global calls\n    calls += 1\n    return tensors[0]\n"
    won = optimized(module, [torch.randn(ROWS)], file)
    with torch.no_grad():
        won.module.eval()(torch.randn(ROWS))
    assert calls_of(won) == 0


def test_what_a_call_appends_to_a_list_is_refused_and_taken_away() -> None:
    class Router(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.losses: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.losses.append(x.square().mean())
            return x.softmax(-1)

    module = Router()
    with pytest.raises(ProblemError, match="a call changes its attribute 'losses'"):
        trace(module, [torch.randn(ROWS)])
    assert module.losses == []
