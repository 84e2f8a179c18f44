"""Operators of PyTorch that take memory for contiguous: their callers copy, which no trace of contiguous inputs has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair, facts_of
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.capture.capture import capture


def bags(table: Any, index: Any, weights: Any) -> Any:
    return F.gelu(F.embedding_bag(index, table, per_sample_weights=weights, mode="sum"))


def split_bags(table: Any, index: Any, starts: Any) -> Any:
    return F.gelu(F.embedding_bag(index[0], table, starts[0], mode="mean"))


def distances(x: Any) -> Any:
    return F.gelu(torch.pdist(x))


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "bags": (bags, lambda: [torch.randn(9, 4), torch.randint(9, (5, 3)), torch.rand(5, 3)]),
    "bags by starts": (
        split_bags,
        lambda: [torch.randn(9, 4), torch.randint(9, (2, 12)), torch.arange(0, 12, 3).repeat(2, 1)],
    ),
    "distances": (distances, lambda: [torch.randn(6, 4)]),
}


def strided(value: torch.Tensor) -> torch.Tensor:
    """The same numbers, two places apart."""
    return torch.stack((value, torch.ones_like(value)), -1)[..., 0]


@pytest.mark.parametrize("case", CASES)
def test_what_lies_in_strides_is_copied_for_them(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.manual_seed(0)
    function, make = CASES[case]
    pair = Pair(function, make(), "cpp", tmp_path / "strided.py")
    pair.call(lambda: [strided(value) for value in make()])


@pytest.mark.parametrize("language", CODEGEN_BACKENDS)
def test_each_call_of_them_says_so(language: str) -> None:
    function, make = CASES["bags"]
    graph = capture(function, make())
    source = CODEGEN_BACKENDS[language].source(facts_of(graph, function), graph, {}, HARDWARE)
    calls = [line for line in source.splitlines() if "aten._embedding_bag" in line and "torch.ops" in line]
    assert calls and all(line.count(".contiguous()") == 4 for line in calls)
