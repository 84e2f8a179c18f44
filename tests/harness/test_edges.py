"""Inputs beside an edge: there a right kernel that adds up in another order gives another answer."""

from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.harness.reference.targets import targets_of
from kernelswarm.schemas import ProblemFormat

POOLING = """
import torch
shapes = {"main": dict(rows=64)}
def inputs(generator, rows): return [torch.randn(rows, 3, generator=generator)]
def reference(scores): return torch.softmax(scores, -1)
"""
LARGE = 3.0e8


@pytest.mark.parametrize(("gap", "is_beside"), [(2.0e8, False), (96.0, True)])
def test_a_softmax_of_large_scores_that_are_close_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gap: float, is_beside: bool
) -> None:
    """A sum of that size is off by sixty in float32, and an epsilon of it is 36."""
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    problem = Open(name="pooling", format=ProblemFormat.function, source=POOLING, seed=1)
    scores = torch.tensor([[LARGE, 0.0, -LARGE]]).repeat(64, 1)
    scores[:8, 1] = LARGE - gap

    [target] = targets_of(open_reference(problem), problem, [scores], shake=True)

    other_sums = torch.softmax(scores, -1)
    other_sums[:8] = torch.tensor([0.5, 0.5, 0.0])
    assert (target.allowed_error(iter([other_sums.reshape(-1)]), target.bound) is not None) == is_beside
    other_sums[16:48] = torch.tensor([0.5, 0.5, 0.0])
    assert target.allowed_error(iter([other_sums.reshape(-1)]), target.bound) is None
    assert not target.doubt(may_be_nan=False)


def test_an_answer_most_of_which_is_beside_an_edge_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    problem = Open(name="pooling", format=ProblemFormat.function, source=POOLING, seed=1)
    scores = torch.tensor([[LARGE, LARGE - 96.0, LARGE - 48.0]]).repeat(64, 1)

    [target] = targets_of(open_reference(problem), problem, [scores], shake=True)

    assert "32 epsilons" in target.doubt(may_be_nan=False)


def test_an_answer_that_moves_as_far_as_its_inputs_is_beside_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    source = POOLING.replace("torch.softmax(scores, -1)", "scores.cumsum(0) / (1e-3 + scores.sum(-1, keepdim=True))")
    problem = Open(name="pooling", format=ProblemFormat.function, source=source, seed=1)
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(64, 3, generator=generator)

    [target] = targets_of(open_reference(problem), problem, [scores], shake=True)

    assert target.is_stable
