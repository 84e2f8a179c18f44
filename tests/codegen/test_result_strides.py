"""Results lie in memory as eager's do: the next layer of a network may view them as that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compared import Pair
from torch import nn

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.tunables import GpuSettings
from kernelswarm.hardware.capture.capture import capture


class Block(nn.Module):
    """As ConvNeXt has it: channels last inside, the residual is added in the usual order."""

    def __init__(self, channels: int = 12) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide = nn.Linear(channels, 4 * channels)
        self.narrow = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(nn.functional.gelu(self.wide(y))) * self.gamma
        return y.permute(0, 3, 1, 2) + x


def turned(x: Any) -> Any:
    return torch.tanh(x.permute(0, 3, 1, 2)) * 2


def turned_back(x: Any) -> Any:
    y = x.permute(0, 3, 1, 2).exp()
    return y.permute(0, 2, 3, 1), y[:, 1], y.sum(-1), y + y.sum((1, 2), keepdim=True)


def of_ones(x: Any) -> Any:
    return x[:, :1].permute(0, 3, 1, 2) * 2, x.permute(3, 1, 2, 0) + 1


def written_too(x: Any) -> Any:
    y = x.transpose(1, 3) * 2
    x.add_(1)
    return y, y.reshape(y.shape[0], -1) + 1


def gated_halves(x: Any) -> Any:
    """Heads behind their tokens; half of a size is rounded."""
    values = x.view(x.shape[0], x.shape[1], 2, 2, -1).permute(2, 0, 3, 1, 4).unbind(0)[1]
    gate, rest = values.chunk(2, -1)
    return gate * torch.sigmoid(rest)


FUNCTIONS = {f.__name__: f for f in (turned, turned_back, of_ones, written_too)}


def assert_lies_alike(got: Any, expected: Any) -> None:
    for mine, eager in zip(
        *((value if isinstance(value, tuple) else (value,)) for value in (got, expected)), strict=True
    ):
        steps = [[s for n, s in zip(v.shape, v.stride(), strict=True) if n != 1] for v in (mine, eager)]
        assert steps[0] == steps[1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_has_the_strides_of_eager_s(name: str, tmp_path: Path) -> None:
    function, sizes = FUNCTIONS[name], ((2, 6, 5, 7), (3, 4, 9, 3))
    pair = Pair(function, [torch.randn(sizes[0])], "cpp", tmp_path / "candidate.py")
    for shape in sizes:
        given = torch.randn(shape)
        pair.call(lambda given=given: [given.clone()])
        assert_lies_alike(pair.kernel(given.clone()), function(given.clone()))


def test_a_result_has_them_where_a_size_was_rounded(tmp_path: Path) -> None:
    pair = Pair(gated_halves, [torch.randn(4, 6, 24)], "cpp", tmp_path / "candidate.py")
    for shape in ((4, 6, 24), (2, 5, 24), (3, 7, 32)):
        given = torch.randn(shape)
        pair.call(lambda given=given: [given.clone()])
        assert_lies_alike(pair.kernel(given.clone()), gated_halves(given.clone()))


def test_a_result_can_be_written_with_gradients_on(tmp_path: Path) -> None:
    pair = Pair(turned, [torch.randn(2, 6, 5, 7)], "cpp", tmp_path / "candidate.py")
    with torch.no_grad():
        result = pair.kernel(torch.randn(2, 6, 5, 7))
    result.mul_(torch.ones(1, requires_grad=True))


@pytest.mark.parametrize("config", [{}, {"channels_last": True}])
def test_a_block_s_result_can_be_viewed_by_the_next(config: dict[str, Any], tmp_path: Path) -> None:
    block, x = Block(), torch.randn(2, 12, 8, 9)
    pair = Pair(block, [x], "cpp", tmp_path / "candidate.py", **config)
    pair.call(lambda: [x], falls_back=False)
    with torch.no_grad():
        assert_lies_alike(pair.kernel(x), block(x))
    assert pair.kernel(x).permute(0, 2, 3, 1).view(-1, 12).shape == (144, 12)


@pytest.mark.parametrize("planned", [lambda g: plan_of(g, Settings()), lambda g: gpu_plan(g, GpuSettings())])
def test_what_lies_otherwise_is_stored_once(planned: Callable[[Any], Any]) -> None:
    (kernel,) = planned(capture(turned, [torch.randn(2, 6, 5, 7)])).kernels

    assert len(kernel.stores) == 1
