"""Sums by an index: every kind of index, on every dimension, as PyTorch adds them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.hardware.capture.capture import capture


def messages(x: Any, edges: Any) -> Any:
    source, target = edges[0], edges[1]
    weight = torch.sigmoid(x[source].sum(-1))
    return torch.zeros_like(x).index_add_(0, target, x[source] * weight[:, None]) + x


def degrees(x: Any, edges: Any) -> Any:
    ones = torch.ones_like(edges[1])
    return (
        torch.zeros(x.shape[0], dtype=torch.int64).scatter_add_(0, edges[1], ones).clamp(min=1).to(x.dtype)[:, None] * x
    )


def spread_out(x: Any, edges: Any) -> Any:
    places = edges[1][:, None].expand(-1, x.shape[1])
    return torch.zeros_like(x).scatter_add(0, places, torch.tanh(x[edges[0]]))


def along_rows(x: Any, edges: Any) -> Any:
    return torch.ones_like(x).scatter_add(1, edges[:, : x.shape[1]] % x.shape[1], x[:2] * 2)


def looked_up(x: Any, edges: Any) -> Any:
    return torch.zeros_like(x).index_put((edges,), x[edges] ** 2, accumulate=True)


def segments(x: Any, edges: Any) -> Any:
    owner = torch.repeat_interleave(torch.arange(edges.shape[1]), torch.ones_like(edges[1]) * 2)
    return x.new_zeros(edges.shape[1], x.shape[1]).index_add(0, owner, F.gelu(x[edges[0].repeat(2)]))


def scaled(x: Any, edges: Any) -> Any:
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]], alpha=2) * 3


FUNCTIONS = (messages, degrees, spread_out, looked_up, segments, scaled)


def inputs(rows: int, edges: int, width: int) -> list[Any]:
    return [torch.randn(rows, width), torch.randint(rows, (2, edges))]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_sums_are_right(function: Callable[..., Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    pair = Pair(function, inputs(20, 90, 24), "cpp", tmp_path / "candidate.py")

    pair.call(lambda: inputs(20, 90, 24), falls_back=False)
    pair.call(lambda: inputs(700, 3000, 50))
    pair.call(lambda: inputs(2, 5, 1))


def test_sums_along_the_last_dimension_are_right(tmp_path: Path) -> None:
    pair = Pair(along_rows, [torch.randn(2, 6), torch.randint(6, (2, 6))], "cpp", tmp_path / "candidate.py")
    pair.call(lambda: [torch.randn(2, 6), torch.randint(6, (2, 6))], falls_back=False)


@pytest.mark.parametrize("function", [messages, degrees, spread_out, looked_up], ids=lambda function: function.__name__)
def test_messages_are_added_where_they_are_computed(function: Callable[..., Any]) -> None:
    plan = plan_of(capture(function, inputs(20, 90, 24)), Settings())

    assert not plan.externs


def test_an_index_out_of_range_is_an_error(tmp_path: Path) -> None:
    pair = Pair(messages, inputs(20, 90, 24), "cpp", tmp_path / "candidate.py")
    x, edges = inputs(20, 90, 24)
    edges[1, 7] = 20

    with pytest.raises(RuntimeError, match="index 20 is out of bounds for dimension 0 with size 20"):
        pair.kernel(x, edges)


def test_sums_of_segments_look_nothing_up(tmp_path: Path) -> None:
    def means(x: Any, offsets: Any, weight: Any) -> Any:
        lengths = offsets[1:] - offsets[:-1]
        segment = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
        total = weight[:, None].expand(-1, x.shape[1]).clone().index_add(0, segment, x * weight[segment][:, None])
        return total / lengths.clamp(min=1)[:, None]

    def ragged(count: int, rows: int, columns: int) -> list[Any]:
        cuts = torch.randint(rows + 1, (count - 1,)).sort().values
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), cuts, torch.full((1,), rows)])
        return [torch.randn(rows, columns), offsets, torch.rand(count)]

    pair = Pair(means, ragged(20, 90, 100), "cpp", tmp_path / "candidate.py")

    assert "ks_segment(" not in pair.source
    pair.call(lambda: ragged(20, 90, 100), falls_back=False)
    pair.call(lambda: ragged(90, 30, 13))
    pair.call(lambda: ragged(700, 3000, 64))
