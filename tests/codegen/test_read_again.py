"""What a GPU stores: values that windows read where they overlap, and what several passes would compute again."""

import pytest
import torch
from torch import nn

from kernelswarm.codegen.ir.loops import Kernel
from kernelswarm.codegen.lowering.in_place import renewed
from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.hardware.capture.capture import capture


def plan_of(module, *inputs, **config):
    with torch.no_grad():
        return gpu_plan(capture(module, list(inputs)), gpu_settings({"own_convolutions": False, **config}))


def stored(plan):
    """By kernel that loops, the nodes that it stores."""
    return [set(kernel.stores) for kernel in plan.kernels if isinstance(kernel, Kernel)]


class InvertedResidual(nn.Sequential):
    """A product for each point, its norm, a convolution of every channel by itself, and the norm of that."""

    def __init__(self, stride=1):
        super().__init__(
            nn.Conv2d(8, 16, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            nn.Conv2d(16, 16, 3, stride, 1, groups=16, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
        )


@pytest.mark.parametrize("stride", [1, 2])
def test_a_depthwise_convolution_is_computed_once(stride):
    plan = plan_of(InvertedResidual(stride), torch.randn(2, 8, 12, 12))
    (window,) = [k for k in plan.kernels if any(name.startswith("convolution_1") for name in k.stores)]
    # It reads one value, which is stored, and is no part of a reduction's passes.
    assert window.reduced is None
    assert sum(name.startswith(("clamp", "relu", "hardtanh")) for names in stored(plan) for name in names) == 2


def test_a_depthwise_convolution_before_a_norm_is_the_library_s_where_channels_lie_last():
    plan = plan_of(InvertedResidual(), torch.randn(2, 8, 12, 12), channels_last=True)
    assert [node.target for node in plan.externs] == ["ks.convolution_last"] * 2
    inference = InvertedResidual().eval()
    assert len(plan_of(inference, torch.randn(2, 8, 12, 12), channels_last=True).externs) == 1


class ConvNeXt(nn.Module):
    """The beginning of its blocks: a window for each channel, and a norm over channels."""

    def __init__(self, size):
        super().__init__()
        self.window = nn.Conv2d(8, 8, size, padding=size // 2, groups=8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.window(x).permute(0, 2, 3, 1))


@pytest.mark.parametrize(("size", "left"), [(3, 0), (7, 1)])
def test_a_wide_depthwise_convolution_before_a_norm_is_the_library_s(size, left):
    assert len(plan_of(ConvNeXt(size), torch.randn(2, 8, 12, 12)).externs) == left


def test_a_cheap_value_is_computed_where_windows_read_it():
    layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.MaxPool2d(3, 1))
    plan = plan_of(layers, torch.randn(2, 8, 12, 12))
    assert not any(name.startswith("relu") for names in stored(plan) for name in names)


def test_windows_that_do_not_overlap_store_nothing_before_them():
    layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, 2))
    plan = plan_of(layers, torch.randn(2, 8, 12, 12))
    assert not any(name.startswith("relu") for names in stored(plan) for name in names)


class Dense(nn.Module):
    """What a dense block does once: the norm of its input beside a convolution of it."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(16)

    def forward(self, x):
        return self.norm(torch.cat([x, self.conv(x)], 1)).relu()


def test_a_concatenation_is_put_together_once_for_all_passes_of_its_norm():
    assert {"cat"} in stored(plan_of(Dense(), torch.randn(2, 8, 12, 12)))


def test_rows_that_a_program_holds_read_what_they_are_made_of():
    def norm(x, y):
        return torch.nn.functional.layer_norm(torch.cat([x, y], -1), (64,))

    plan = plan_of(norm, torch.randn(32, 32), torch.randn(32, 32))
    assert not any("cat" in names for names in stored(plan))


def test_running_statistics_are_written_where_they_are():
    plan = plan_of(nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8)), torch.randn(2, 4, 8, 8))
    sources = {source for kernel in plan.kernels for source in renewed(plan, kernel).values()}
    names = {plan.nodes[name].target for name in sources}
    assert names == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_what_is_read_elsewhere_is_written_last():
    class Lagging(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x):
            out = x - self.mean
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return out

    plan = plan_of(Lagging(), torch.randn(4096, 8))
    assert not any(renewed(plan, kernel) for kernel in plan.kernels)


class Weighed(nn.Module):
    """Its weight has a new value that is made of the inputs alone, once the old one was multiplied with."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(8, 8))

    def forward(self, x):
        out = x @ self.weight
        self.weight.copy_((x.mean(0) + 1.0).expand(8, 8) * 2.0)
        return out


class Edges(nn.Module):
    """Every new value is searched for among all the old ones."""

    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.arange(8.0))

    def forward(self, x):
        self.edges.copy_(torch.searchsorted(self.edges, x) + 0.5)
        return x * 2.0


@pytest.mark.parametrize(("module", "x"), [(Weighed(), torch.randn(5, 8)), (Edges(), torch.randn(8))])
def test_what_an_operator_or_a_search_reads_is_written_last(module, x):
    plan = plan_of(module, x)
    assert not any(renewed(plan, kernel) for kernel in plan.kernels if isinstance(kernel, Kernel))


def test_what_is_stored_a_second_time_is_written_last():
    class Returning(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(8))

        def forward(self, x):
            self.state.mul_(0.5).add_(x)
            return self.state.clone()

    plan = plan_of(Returning(), torch.randn(8))
    stores = [(kernel, len(kernel.stores)) for kernel in plan.kernels if isinstance(kernel, Kernel)]
    assert all(count == 1 or not renewed(plan, kernel) for kernel, count in stores)
