"""Mean pools that are moved before pointwise convolutions, and those that stay."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kernelswarm.codegen.lowering.pools_first import pools_first
from kernelswarm.hardware.capture.capture import capture


class Transition(nn.Sequential):
    """What stands between the blocks of a DenseNet."""

    def __init__(self, pool=None):
        super().__init__(nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 1), pool or nn.AvgPool2d(2))


def graph_of(module, *shape):
    with torch.no_grad():
        return capture(module, [torch.randn(*shape)])


def order(graph):
    names = [node.target.split(".")[1] for node in graph.nodes if node.op == "call"]
    return [name for name in names if "pool" in name or name in ("convolution", "mean", "squeeze")][-3:]


@pytest.mark.parametrize(
    ("pool", "want"),
    [
        (nn.AvgPool2d(2), ["avg_pool2d", "convolution"]),
        (nn.AvgPool2d((2, 3)), ["avg_pool2d", "convolution"]),
        (nn.AdaptiveAvgPool2d(1), ["mean", "convolution"]),
    ],
)
def test_a_mean_pool_is_taken_first(pool, want):
    graph = pools_first(graph_of(Transition(pool), 2, 6, 12, 12))
    assert order(graph)[-2:] == want
    assert next(node for node in graph.nodes if "before" in node.name).values[0].shape[1] == 6


@pytest.mark.parametrize(
    "module",
    [
        Transition(nn.AvgPool2d(2, stride=1)),
        Transition(nn.AvgPool2d(2, padding=1)),
        Transition(nn.AvgPool2d(2, ceil_mode=True)),
        Transition(nn.AvgPool2d(2, divisor_override=3)),
        Transition(nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 8, 3), nn.AvgPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 8, 1, stride=2), nn.AvgPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 8, 1, padding=1), nn.AvgPool2d(2)),
        nn.Sequential(nn.ConvTranspose2d(6, 8, 1), nn.AvgPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 8, 1), nn.ReLU(), nn.AvgPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 1, 1), nn.AvgPool2d(2)),
    ],
)
def test_others_stay(module):
    graph = graph_of(module, 2, 6, 12, 12)
    assert pools_first(graph) is graph


def test_a_convolution_that_is_read_elsewhere_or_is_exact_stays():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(6, 8, 1)

        def forward(self, x):
            y = self.convolution(x)
            return F.avg_pool2d(y, 2), y.sum()

    graph = graph_of(Twice(), 2, 6, 12, 12)
    assert pools_first(graph) is graph
    graph = graph_of(Transition(), 2, 6, 12, 12)
    assert pools_first(graph, ["convolution"]) is graph


class Means(nn.Module):
    """Without the places it is taken over, and of volumes."""

    def __init__(self):
        super().__init__()
        self.plane, self.volume = nn.Conv2d(3, 5, 1), nn.Conv3d(3, 4, 1)

    def forward(self, x):
        return self.plane(x).mean((2, 3)), F.avg_pool3d(self.volume(x.unsqueeze(2)), (1, 2, 2))


def test_means_of_planes_and_volumes():
    graph = pools_first(graph_of(Means(), 2, 3, 8, 6))
    assert sum("before" in node.name for node in graph.nodes) == 2


def test_a_mean_of_one_number_stays():
    graph = capture(lambda x: x.mean(0), [torch.tensor(2.0)])
    assert pools_first(graph) == graph
