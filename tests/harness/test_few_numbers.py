"""An output of few numbers is judged by the reference's usual error, not by the luck of one draw."""

import os
from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.harness.children import reference
from kernelswarm.hardware.harness.messages.commands import MakeCase, Open
from kernelswarm.schemas import ProblemFormat

SOURCE = """
import torch

shapes = {"main": dict(rows=4096, cols=16, classes=10)}
backward = True

def inputs(generator, rows, cols, classes):
    pred, target = (torch.randn(rows, cols, generator=generator) for _ in range(2))
    label = torch.randint(0, classes, (rows,), generator=generator)
    return [pred, target, label, torch.rand(classes, generator=generator) + 0.5]

def reference(pred, target, label, weight):
    loss = torch.nn.functional.huber_loss(pred, target, reduction="none").mean(-1)
    each = weight[label]
    return (loss * each).sum() / each.sum()
"""
WEIGHT = 3
"""The gradient of the classes' weights: ten sums that nearly cancel, and share a factor."""


def gradient(pred: torch.Tensor, target: torch.Tensor, label: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The same gradient for an upstream gradient of one, by sums in another order."""
    loss = torch.nn.functional.huber_loss(pred, target, reduction="none").mean(-1)
    each = torch.nn.functional.one_hot(label, weight.numel()).float()
    total = (each @ weight).sum()
    mean = loss @ (each @ weight) / total
    return (loss - mean) @ each / total


def test_another_order_of_summation_is_right_whatever_the_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = reference._Reference()
    process.open(Open(name="p", source=SOURCE, format=ProblemFormat.function, seed=1, device="cpu"), [])
    assert process._reference is not None
    usual, shares = 0.0, []
    for seed in range(100, 124):
        _, files = process.make_case(MakeCase(case=0, shape="main", seed=seed), [])
        for file in files:
            os.close(file)
        target, large = process._cases[0][WEIGHT], process._cases[0][1]
        usual = usual or target.reference_error
        assert target.reference_error >= usual and large.reference_error < usual
        *inputs, (upstream,) = process._reference.draw("main", seed)
        shares.append(target.distance_to(gradient(*inputs) * upstream) / target.bound)
    assert max(shares) < 1
