"""Elements that jump, beside a step or among equal numbers: they convict no right kernel, and hide no wrong one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference.problem import ReferenceProblem, open_reference
from kernelswarm.hardware.harness.reference.targets import targets_of
from kernelswarm.hardware.harness.reference.validity import changed
from kernelswarm.hardware.harness.tensors.bounds import Tolerance
from kernelswarm.hardware.harness.tensors.compare import Target
from kernelswarm.hardware.harness.tensors.flat import chunks_of, flat
from kernelswarm.hardware.harness.tensors.right_answer import RightAnswer
from kernelswarm.schemas import ProblemFormat

STEPS = """
import torch
shapes = {"main": dict(rows=512, cols=1024)}
def inputs(generator, rows, cols): return [torch.randn(rows, cols, generator=generator)]
def reference(x):
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127
    return torch.round(x / scale) * scale
"""
ROUTE = """
import torch
shapes = {"main": dict(tokens=16384, experts=64, k=8)}
def inputs(generator, tokens, experts, k): return [2.0 * torch.randn(tokens, experts, generator=generator), k]
def reference(logits, k):
    scores = torch.softmax(logits, dim=-1, dtype=torch.float32)
    top, index = torch.topk(scores, k, dim=-1)
    top = top / top.sum(-1, keepdim=True)
    probs = torch.zeros_like(scores).scatter(-1, index, top)
    return probs, torch.zeros_like(scores, dtype=torch.int32).scatter(-1, index, 1).sum(0)
"""
TIED_DRAWS = 11, 15
"""Of one token the eighth and the ninth logit are equal."""

Opened = Callable[[str], tuple[ReferenceProblem, Open]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch

    def opened(source: str) -> tuple[ReferenceProblem, Open]:
        problem = Open(name="jumping", format=ProblemFormat.function, source=source, seed=1)
        return open_reference(problem), problem

    return opened


def passes(targets: Sequence[Target], answers: Sequence[torch.Tensor]) -> list[bool]:
    def is_right(target: Target, answer: torch.Tensor) -> bool:
        parts = list(chunks_of(flat(answer, False), 1 << 16))
        return target.error(iter(parts))[0] <= target.bound or (
            target.allowed_error(iter(parts), target.bound) is not None
        )

    return [is_right(target, answer) for target, answer in zip(targets, answers, strict=True)]


def by_inverses(x: torch.Tensor) -> torch.Tensor:
    most = x.abs().amax(-1, keepdim=True).clamp_min(1e-8)
    return torch.round(x * (127 / most)) * (most / 127)


def in_half(x: torch.Tensor) -> torch.Tensor:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x.bfloat16() / scale.bfloat16()).float() * scale


def last_row_forgotten(x: torch.Tensor) -> torch.Tensor:
    answer = by_inverses(x)
    answer[-1] = 0.0
    return answer


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_numbers_beside_a_step_may_be_on_either_side_of_it(opened: Opened, seed: int) -> None:
    reference, problem = opened(STEPS)
    [x] = reference.draw("main", seed)
    targets = targets_of(reference, problem, [x])
    assert targets[0].reference_error < 1e-6
    assert (by_inverses(x) - reference.call(x)).abs().max() > 1e-3
    assert passes(targets, [by_inverses(x)]) == [True]
    for wrong in (x, in_half(x), last_row_forgotten(x), by_inverses(x).masked_fill_(x > 4.0, torch.nan)):
        assert passes(targets, [wrong]) == [False]


@pytest.mark.parametrize("variant", ["heavy_tailed", "ill_conditioned", "dominated", "tiny"])
def test_harder_inputs_beside_a_step_are_judged_all_the_same(opened: Opened, variant: str) -> None:
    reference, problem = opened(STEPS)
    inputs, targets = changed(reference, problem, lambda seed: reference.draw("main", seed), variant, 5, 1e-7)
    assert passes(targets, [by_inverses(*inputs)]) == [True]
    scale = inputs[0].abs().amax(-1, keepdim=True) / 127
    assert passes(targets, [torch.round(inputs[0] / scale) * scale]) == [variant != "tiny"]
    clamped = by_inverses(inputs[0].clamp(-6.0, 6.0))
    assert passes(targets, [clamped]) == [bool((inputs[0].abs() <= 6.0).all())]


def routed(logits: torch.Tensor, k: int, places: torch.Tensor) -> list[torch.Tensor]:
    gates = torch.softmax(logits.gather(-1, places), -1)
    counts = torch.bincount(places.reshape(-1), minlength=logits.shape[1])
    return [torch.zeros_like(logits).scatter(-1, places, gates), counts]


@pytest.mark.parametrize("seed", TIED_DRAWS)
def test_a_problem_s_own_inputs_may_hold_equal_numbers(opened: Opened, seed: int) -> None:
    reference, problem = opened(ROUTE)
    inputs: list[Any] = reference.draw("main", seed)
    logits, k = inputs
    targets = targets_of(reference, problem, inputs)
    first = logits.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    later = logits.shape[1] - 1 - logits.flip(-1).sort(dim=-1, descending=True, stable=True).indices[:, :k]
    assert not torch.equal(first.sort(-1).values, later.sort(-1).values)
    assert passes(targets, routed(logits, k, first)) == [True, True]
    assert passes(targets, routed(logits, k, later)) == [True, True]
    tied = (first.sort(-1).values != later.sort(-1).values).any(-1)
    assert int(tied.sum()) < 8
    # Where nothing is equal, one expert for another is wrong, and so are gates that are none of both orders'.
    wrong, row = first.clone(), int((~tied).nonzero()[7])
    wrong[row, 0] = logits[row].argmin()
    assert passes(targets, routed(logits, k, wrong))[0] is False
    gates, counts = routed(logits, k, first)
    gates[tied] *= 100.0
    assert passes(targets, [gates, counts])[0] is False


def test_each_answer_is_compared_once_where_nothing_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a case compared a shaken answer three times, and what is right with itself."""
    precise = torch.randn(4096, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    native, other, *moved = (precise * (1 + share * 2.0**-24) for share in (1, -1, 2, -2, 3))
    compared: list[int] = []
    errors_of = RightAnswer._errors_of
    monkeypatch.setattr(RightAnswer, "_errors_of", lambda *given: compared.append(1) or errors_of(*given))
    target = RightAnswer(native.float(), precise, Tolerance(), moved[:2], other.float(), far=[moved[2]], epsilons=32.0)
    assert len(compared) == 5 and not target.jumps
    assert 0 < target.reference_error < 2.0**-22 and 0 < target.sensitivity < 2.0**-22
