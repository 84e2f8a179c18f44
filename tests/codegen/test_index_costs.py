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


class Windows(nn.Module):
    """Attention in windows: a bias that is looked up for pairs of places, one copy for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(169, 4))
        self.register_buffer("places", torch.randint(169, (49, 49)))

    def forward(self, x: Any, mask: Any) -> Any:
        bias = self.table[self.places.view(-1)].view(49, 49, -1).permute(2, 0, 1).contiguous()
        rows = x.shape[0] // (x.shape[1] // 4)
        return (x + bias).view(rows, -1, 4, 49, 49).add(mask[:, None]).softmax(-1)


def test_looked_up_biases_are_stored_in_the_order_in_which_they_are_read() -> None:
    inputs = [torch.randn(16, 4, 49, 49), torch.zeros(1, 49, 49)]
    plan = plan_of(capture(Windows(), inputs), Settings())

    stored = {plan.nodes[name].target for kernel in plan.kernels for name in getattr(kernel, "stores", ())}
    assert "aten.clone.default" in stored and "aten.index.Tensor" not in stored


def test_scores_far_below_the_maximum_cost_no_more_than_others(tmp_path: Path) -> None:
    pair = Pair(lambda x: torch.softmax(x * 2, -1), [torch.randn(64, 49)], "cpp", tmp_path / "far.py")
    assert "ks_exp_down_accurate" in pair.source and "ks_exp_accurate" not in pair.source
    far = torch.randn(64, 49) - 50.0 * torch.randint(2, (64, 49))
    pair.call(lambda: [far], falls_back=False)
    pair.call(lambda: [torch.tensor([[0.0, float("-inf"), -90, 1]] * 2)], falls_back=False)


@pytest.mark.parametrize("math", ["accurate", "fast"])
@pytest.mark.parametrize(
    "decides",
    [
        lambda gates: gates.argmin(-1),
        torch.log,
        lambda gates: gates.bool(),
        torch.ceil,
        lambda gates: gates[:, -2:] / gates[:, -2:].sum(-1, keepdim=True),
    ],
)
def test_gates_on_which_something_decides_may_be_subnormal(decides: Any, math: str, tmp_path: Path) -> None:
    def gated(x: Any) -> Any:
        return decides(torch.softmax(x * 2, -1))

    pair = Pair(gated, [torch.randn(64, 49)], "cpp", tmp_path / "gates.py", math=math)
    assert "ks_exp_down_accurate" not in pair.source
    far = torch.linspace(0, -51, 49).expand(64, 49).contiguous()  # twice that is -102: exp of it is subnormal
    pair.call(lambda: [far], falls_back=False)


@pytest.mark.parametrize("mixes", [lambda gates: torch.log(gates + 1e-9), lambda gates: gates / 2])
def test_gates_whose_smallest_numbers_are_lost_have_quick_exponentials(mixes: Any, tmp_path: Path) -> None:
    pair = Pair(lambda x: mixes(torch.softmax(x, -1)), [torch.randn(64, 49)], "cpp", tmp_path / "lost.py")
    assert "ks_exp_down_accurate" in pair.source
    pair.call(lambda: [torch.linspace(0, -102, 49).expand(64, 49).contiguous()], falls_back=False)


def test_quotients_of_sizes_are_computed_once(tmp_path: Path) -> None:
    def parted(x: Any) -> Any:
        rows, columns = x.shape
        parts = columns // 4
        return torch.softmax(x.view(rows, columns // parts, parts) * 2, -1).transpose(1, 2).reshape(rows, -1) + 1

    pair = Pair(parted, [torch.randn(6, 40)], "cpp", tmp_path / "parted.py")
    loops = [line for line in pair.source.splitlines() if line.lstrip().startswith("for (int64_t i")]
    assert loops and not any("/ (4)" in line for line in loops)
    pair.call(lambda: [torch.randn(6, 40)], falls_back=False)
    pair.call(lambda: [torch.randn(5, 56)])


def test_elements_are_divided_by_sizes_in_floating_point(tmp_path: Path) -> None:
    def grouped(x: Any) -> Any:
        rows, heads, steps, width = x.shape
        return torch.softmax(x.transpose(1, 2).reshape(rows * steps, 4, heads * width // 4), -1)

    pair = Pair(grouped, [torch.randn(2, 8, 5, 6)], "cpp", tmp_path / "grouped.py")
    assert "ks_quotient(" in pair.source
    pair.call(lambda: [torch.randn(2, 8, 5, 6)], falls_back=False)
    pair.call(lambda: [torch.randn(5, 16, 3, 7)], falls_back=False)
    pair.call(lambda: [torch.randn(3, 12, 2, 21)], falls_back=False)
