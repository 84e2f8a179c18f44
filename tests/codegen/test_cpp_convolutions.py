"""Convolutions that C++ drafts leave to PyTorch: what is taken from them, and what stands between."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair, facts_of
from graphs import HARDWARE
from torch import nn

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
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


class Inverted(nn.Module):
    """Every channel by itself between two that mix them, with a norm over groups and an attention to channels."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(8, 24, 1, bias=False), nn.Conv2d(24, 8, 1)
        self.deep, self.norm = nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.GroupNorm(4, 24)
        self.squeeze = nn.Linear(24, 24)

    def forward(self, x: Any) -> Any:
        y = F.mish(self.norm(self.deep(F.relu6(self.wide(x)))))
        y = y * torch.sigmoid(self.squeeze(y.mean((2, 3))))[:, :, None, None]
        return x + self.narrow(F.pad(y, (1, 0))[..., 1:]), y.flatten(1).amax(1)


class Volumes(nn.Module):
    """Three dimensions, with what pools of the library read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv3d(4, 8, 3), nn.BatchNorm3d(8), nn.Conv3d(8, 4, 1)

    def forward(self, x: Any) -> Any:
        return self.last(F.max_pool3d(F.gelu(self.norm(self.first(x))), 2)).softmax(1)


CASES = {
    "inverted": (Inverted, lambda: [torch.randn(2, 8, 9, 12)], lambda: [torch.randn(3, 8, 4, 5)]),
    "volumes": (Volumes, lambda: [torch.randn(2, 4, 8, 9, 10)], lambda: [torch.randn(1, 4, 6, 6, 7)]),
    "levels": (Levels, lambda: [torch.randn(2, 3, 16, 24)], lambda: [torch.randn(1, 3, 8, 6)]),
    "points": (Points, lambda: [torch.randn(2, 3, 50)], lambda: [torch.randn(1, 3, 7)]),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_networks_with_convolutions_are_right_at_every_size(name: str, last: bool, folder: Path) -> None:
    module, *makers = CASES[name]
    pair = Pair(module().eval(), makers[0](), "cpp", folder / f"{name}_{last}.py", channels_last=last)
    assert "left to PyTorch: aten.convolution.default" in pair.source
    for maker in makers:
        pair.call(maker, falls_back=False)
        assert [result.stride() for result in results(pair.kernel(*maker()))] == [
            result.stride() for result in results(pair.target(*maker()))
        ]


def results(given: Any) -> list[torch.Tensor]:
    """Tensors that a call returned."""
    return list(given) if isinstance(given, tuple) else [given]


def test_channels_last_is_a_draft_where_it_changes_something() -> None:
    facts = {
        name: facts_of(capture(module().eval(), makers[0]()), module()) for name, (module, *makers) in CASES.items()
    }
    tunables = {name: CODEGEN_BACKENDS["cpp"].tunables(f.graph, HARDWARE) for name, f in facts.items() if f.graph}
    assert {name: "channels_last" in (values or ()) for name, values in tunables.items()} == {
        "inverted": True,
        "volumes": True,
        "levels": True,
        "points": False,
    }


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
