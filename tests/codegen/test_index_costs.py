"""What would cost more to compute in place than to copy first, and what would be taken apart into worse."""

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


class PatchMerging(nn.Module):
    """Of vision transformers with windows: four neighbours become one row, which is normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)

    def forward(self, x: Any) -> Any:
        rows, height, width, channels = x.shape
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        x = x.reshape(rows, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 4, 2, 5).flatten(3)
        return self.norm(x)


def test_a_reshape_that_divides_by_sizes_at_every_element_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = Pair(PatchMerging(), [torch.randn(2, 6, 10, 8)], "cpp", tmp_path / "candidate.py")
    plan = plan_of(pair.graph, Settings())

    assert {node.target for node in plan.externs} == {"aten.view.default"}
    pair.call(lambda: [torch.randn(2, 6, 10, 8)], falls_back=False)
    pair.call(lambda: [torch.randn(3, 4, 4, 8)])


def test_folding_is_no_write_by_element() -> None:
    graph = capture(lambda x: F.fold(torch.tanh(x), (8, 8), 3, padding=1), [torch.randn(2, 36, 64)], ["x"])

    assert {node.target for node in plan_of(graph, Settings()).externs} == {"aten.col2im.default"}


def test_what_is_looked_up_for_many_rows_is_looked_up_once() -> None:
    def scores(x: Any, table: Any, places: Any) -> Any:
        return torch.softmax(x + table[places.view(-1)].view(32, 32, 4).permute(2, 0, 1), -1)

    inputs = [torch.randn(16, 4, 32, 32), torch.randn(50, 4), torch.randint(50, (32, 32))]
    plan = plan_of(capture(scores, inputs), Settings())

    stored = {plan.nodes[name].target for kernel in plan.kernels for name in getattr(kernel, "stores", ())}
    assert "aten.index.Tensor" in stored
    few = plan_of(capture(scores, [inputs[0][:2], *inputs[1:]]), Settings())
    assert len(few.kernels) == 1


class SqueezeExcite(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Any) -> Any:
        gate = torch.sigmoid(self.expand(torch.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)))))
        return x + x * gate


@pytest.mark.parametrize(("width", "externs"), [(32, set()), (1024, {"aten.mm.default"})])
def test_convolutions_of_one_pixel_are_products(
    width: int, externs: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = Pair(SqueezeExcite(width), [torch.randn(4, width, 6, 6)], "cpp", tmp_path / "candidate.py")

    assert {node.target for node in plan_of(pair.graph, Settings()).externs} == externs
    pair.call(lambda: [torch.randn(4, width, 6, 6)], falls_back=False)
    pair.call(lambda: [torch.randn(3, width, 2, 5)])
