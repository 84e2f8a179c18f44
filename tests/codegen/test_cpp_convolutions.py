"""Convolutions that C++ drafts leave to PyTorch: what is taken from them, and what stands between."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair
from torch import nn

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.hardware.capture.capture import capture


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where candidates and their libraries lie."""
    path = tmp_path_factory.mktemp("convolutions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path))
        yield path


class Levels(nn.Module):
    """A network with two sizes of its features: down by a pool, up by a transposed convolution."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, padding=1)
        self.norm, self.up = nn.BatchNorm2d(2 * width), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.head = nn.Conv2d(2 * width, 5, 1)

    def forward(self, x: Any) -> Any:
        wide = F.relu(self.first(x))
        narrow = F.relu(self.norm(self.down(F.max_pool2d(wide, 2))))
        return self.head(torch.cat([self.up(narrow), wide], 1)), narrow.mean((2, 3), keepdim=True)


class Points(nn.Module):
    """Convolutions over one dimension of which a maximum is taken, and where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 20, 1)

    def forward(self, x: Any) -> Any:
        features = F.relu(self.wide(F.relu(self.narrow(x))))
        values, places = features.max(2)
        return values, places, features.amin(1).min(-1).indices


CASES = {
    "levels": (Levels, lambda: [torch.randn(2, 3, 16, 24)], lambda: [torch.randn(1, 3, 8, 6)]),
    "points": (Points, lambda: [torch.randn(2, 3, 50)], lambda: [torch.randn(1, 3, 7)]),
}


@pytest.mark.parametrize("name", CASES)
def test_networks_with_convolutions_are_right_at_every_size(name: str, folder: Path) -> None:
    module, *makers = CASES[name]
    pair = Pair(module().eval(), makers[0](), "cpp", folder / f"{name}.py")
    for maker in makers:
        pair.call(maker, falls_back=False)


def convolutions(function: Any, inputs: list[Any]) -> list[tuple[str, bool]]:
    """Target of every convolution that is left, and whether it keeps its bias."""
    externs = plan_of(capture(function, inputs), Settings()).externs
    return [(node.target, node.args[2] is not None) for node in externs if "convolution" in node.target]


def followed(x: Any, w: Any, b: Any) -> Any:
    return F.relu(F.conv2d(x, w, b))


def alone(x: Any, w: Any, b: Any) -> Any:
    return F.conv2d(F.relu(x), w, b)


def test_a_bias_joins_what_follows_where_that_is_rounded_as_often() -> None:
    inputs = [torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)]
    halves = [value.bfloat16() for value in inputs]

    assert convolutions(followed, inputs) == [("aten.convolution.default", False)]
    assert convolutions(followed, halves) == [("aten.convolution.default", True)]
    assert convolutions(alone, inputs) == [("aten.convolution.default", True)], "nothing follows"


def extremes(x: Any) -> Any:
    values, places = (x * 2).max(1)
    return values, places, x.min(-1, keepdim=True).indices


def test_values_and_positions_of_extremes_are_computed_by_kernels(folder: Path) -> None:
    pair = Pair(extremes, [torch.randn(6, 40)], "cpp", folder / "extremes.py")
    pair.call(lambda: [torch.randint(3, (5, 9)).float()], falls_back=False)

    assert not plan_of(pair.graph, Settings()).externs
