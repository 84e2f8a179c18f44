"""Input variants: nothing is computed beyond the run in float64 that decides whether a draw is used."""

import functools
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference import validity
from kernelswarm.hardware.harness.reference.problem import FunctionReference, ReferenceProblem, open_reference
from kernelswarm.hardware.harness.reference.validity import DRAWS, InputVariants, InvalidDraw, InvalidVariant, changed
from kernelswarm.hardware.harness.tensors.bounds import SHAKES
from kernelswarm.schemas import ProblemFormat

FAR = 2
"""Movements by 32 epsilons."""

EXACT = "x * 2"
COARSE = "x.bfloat16().float() if x.dtype == torch.float32 else x + 0"
COARSE_IN_PARTS = "torch.cat([x[:900], x[900:].bfloat16().float() if x.dtype == torch.float32 else x[900:]])"


def opened(expression: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ReferenceProblem, Open, list[int]]:
    """The problem, and how often it was computed in float64: one entry for each time."""
    monkeypatch.chdir(folder)
    source = f"""
import torch

shapes = {{"main": dict(size=1000)}}

def inputs(generator, size):
    return [torch.rand(size, generator=generator)]

def reference(x):
    return {expression}
"""
    problem = Open(name="p", source=source, format=ProblemFormat.function, seed=1, device="cpu")
    runs: list[int] = []
    precise = FunctionReference.precise

    def counted(self: FunctionReference, *arguments: Any, **named: Any) -> Any:
        runs.append(1)
        return precise(self, *arguments, **named)

    monkeypatch.setattr(FunctionReference, "precise", counted)
    return open_reference(problem), problem, runs


@pytest.mark.parametrize(
    ("expression", "quick", "runs", "is_refused"),
    [
        (EXACT, False, 1 + SHAKES + FAR, False),
        (EXACT, True, 1, False),
        (COARSE, False, DRAWS, True),
        (COARSE, True, DRAWS, True),
        (COARSE_IN_PARTS, False, 1 + SHAKES + FAR, False),
        (COARSE_IN_PARTS, True, 1 + SHAKES + FAR, False),
    ],
)
def test_no_more_is_computed_than_decides(
    expression: str, quick: bool, runs: int, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, problem, counted = opened(expression, tmp_path, monkeypatch)
    draw = functools.partial(reference.draw, "main")

    if is_refused:
        with pytest.raises(InvalidVariant, match="float64 gives another answer"):
            changed(reference, problem, draw, "shifted", 3, 0.0, quick=quick)
    else:
        changed(reference, problem, draw, "shifted", 3, 0.0, quick=quick)

    assert len(counted) == runs


def test_where_equal_numbers_are_ordered_all_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference, problem, counted = opened("torch.topk(x, 10).values", tmp_path, monkeypatch)

    changed(reference, problem, functools.partial(reference.draw, "main"), "repeated", 3, 0.0, quick=True)

    assert len(counted) > 1 + SHAKES


def test_variants_after_two_that_jump_on_every_draw_are_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deep network jumps wherever one looks: validating ResNet18 made 24 draws of five runs each for six variants."""
    reference, problem, _ = opened(COARSE_IN_PARTS, tmp_path, monkeypatch)
    drawn_for: list[str] = []

    def jumps(reference: Any, problem: Any, inputs: Any, variant: str, *rest: Any) -> Any:
        drawn_for.append(variant)
        raise InvalidDraw("it jumps")

    monkeypatch.setattr(validity, "_changed", jumps)
    inputs = reference.draw("main", 1)
    sizes, like = {"main": 4000}, validity.Usual((), (), "", 4000, 0.0)
    variants = InputVariants(reference, problem, 3, sizes, sizes, {"main": 0.0}, {"main": like}, {}, {}, inputs)
    variants.examine()

    assert not any(count for (_, why), count in variants._reasons.items() if why != "it jumps")
    names = list(dict.fromkeys(drawn_for))
    assert len(names) > 3 and all(kind.refused for kind in variants.input_kinds)
    assert [drawn_for.count(name) for name in names] == [DRAWS, DRAWS, *[1] * (len(names) - 2)]
