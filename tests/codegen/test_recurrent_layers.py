"""Which recurrent layers have a kernel of ours, and in how many launches; their numbers: test_triton_candidates.py."""

import pytest
import torch
from graphs import HARDWARE
from torch import nn

from kernelswarm.codegen.backends import TritonBackend
from kernelswarm.codegen.ir.error_bounds import ErrorBounds
from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.recurrent_layers import LAYERS
from kernelswarm.codegen.triton.tunables import GpuSettings
from kernelswarm.hardware.capture.capture import capture

IN_TF32, EXACT = 1e-3, 2e-5


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(8, 16), nn.LSTM(8, 16)

    def forward(self, x):
        return self.first(x)[0], self.second(x)[0]


class Headed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(8, 16)

    def forward(self, x):
        return torch.tanh(self.layers(x)[0] * 2)


def launched(module, x, bounds=None, **settings):
    plan = gpu_plan(capture(module.eval(), [x]), GpuSettings(**settings), bounds=bounds or ErrorBounds(IN_TF32))
    names = [node.target for node in plan.externs]
    return names.count(LAYERS), sum(name.startswith("aten.") and name.endswith(".input") for name in names), plan


@pytest.mark.parametrize(
    ("make", "launches"),
    [
        (lambda: nn.LSTM(32, 256, 6), 1),
        (lambda: nn.GRU(32, 256, 6, bidirectional=True), 6),
        (lambda: nn.LSTM(32, 512, 2), 2),
        (lambda: nn.RNN(32, 100, 3), 1),
    ],
    ids=["layers a step apart", "both directions", "weights of one layer alone fit", "no gates"],
)
def test_as_many_layers_in_a_launch_as_fit_the_device(make, launches):
    assert launched(make(), torch.zeros(4, 3, 32))[:2] == (launches, 0)


@pytest.mark.parametrize(
    ("make", "batch"),
    [
        (lambda: nn.LSTM(32, 1024), 3),
        (lambda: nn.LSTM(32, 64, proj_size=8), 3),
        (lambda: nn.GRU(32, 16), 65),
    ],
    ids=["weights beyond the registers", "projected states", "many sequences"],
)
def test_others_are_left_to_the_library(make, batch):
    assert launched(make(), torch.zeros(4, batch, 32))[:2] == (0, 1)


def test_a_small_device_has_fewer_layers_in_a_launch():
    assert launched(nn.LSTM(32, 256, 6), torch.zeros(4, 3, 32), multiprocessors=50)[0] == 2
    assert launched(nn.LSTM(32, 256, 6), torch.zeros(4, 3, 32), multiprocessors=15)[:2] == (0, 1)


def test_what_must_be_as_exact_as_fp32_stays_with_the_library():
    module, x = nn.LSTM(8, 16), torch.zeros(4, 3, 8)
    assert launched(module, x, ErrorBounds(EXACT))[:2] == (0, 1)
    assert launched(module, x, recurrent=False)[:2] == (0, 1)


@pytest.mark.parametrize(("module", "values"), [(nn.LSTM(8, 16), ()), (Two(), ()), (Headed(), (True, False))])
def test_the_library_is_an_alternative_where_something_else_is_generated(module, values):
    graph = capture(module.eval(), [torch.zeros(4, 3, 8)])
    tunables = TritonBackend().tunables(graph, HARDWARE, ErrorBounds(IN_TF32))
    assert tunables is not None
    assert tunables.get("recurrent", ()) == values


def test_of_two_only_the_exact_one_does():
    bounds = ErrorBounds(EXACT, {"output_0": IN_TF32, "output_1": EXACT})
    count, left, plan = launched(Two(), torch.zeros(4, 3, 8), bounds)
    assert (count, left) == (1, 1)
    assert any(node.target == "aten.lstm.input" for node in plan.externs)
