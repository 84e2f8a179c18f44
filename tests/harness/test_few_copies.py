"""Validation keeps few copies of large inputs and answers at once: they decide how much of a device it needs."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from kernelswarm.hardware.harness.children import reference as child
from kernelswarm.hardware.harness.inputs import sizes
from kernelswarm.hardware.harness.messages.commands import MakeCase, Open
from kernelswarm.hardware.harness.reference import examination, targets
from kernelswarm.hardware.harness.reference.examination import Examination, drawn
from kernelswarm.hardware.harness.reference.problem import ReferenceProblem, open_reference
from kernelswarm.hardware.harness.reference.validity import changed
from kernelswarm.hardware.harness.tensors import right_answer
from kernelswarm.hardware.processes import wire
from kernelswarm.schemas import ProblemFormat

SOURCE = """
import torch
shapes = {"main": dict(rows=6)}
def inputs(generator, rows): return [torch.randn(rows, 5, generator=generator)]
def reference(x): return torch.selu(x.t()).t() * 1.1
"""


@pytest.fixture
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.chdir(tmp_path)
    return Open(name="p", source=SOURCE, format=ProblemFormat.function, seed=1, device="cpu")


@pytest.fixture
def reference(problem: Open) -> ReferenceProblem:
    return open_reference(problem)


def test_what_inputs_of_a_variant_were_made_from_is_gone_when_the_reference_is_called(
    problem: Open, reference: ReferenceProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    bases: list[Callable[[], Any]] = []
    alive: list[bool] = []
    call = reference.call

    def draw(seed: int) -> list[Any]:
        (tensor,) = reference.draw("main", seed)
        bases.append(weakref.ref(tensor))
        return [tensor]

    def counted(*inputs: Any) -> Any:
        gc.collect()
        alive.extend(base() is not None for base in bases)
        return call(*inputs)

    monkeypatch.setattr(reference, "call", counted)
    changed(reference, problem, draw, "heavy_tailed+strided", 3, 0.0)
    assert alive and not any(alive)


def test_answers_that_lie_otherwise_are_laid_out_in_order_and_judged_alike(
    problem: Open, reference: ReferenceProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [reference.draw("main", 1)[0].t().contiguous().t()]
    assert not reference.call(*inputs).is_contiguous()
    (usual,) = targets.targets_of(reference, problem, inputs, shake=True)
    monkeypatch.setattr(targets, "ORDERED", 0)
    (ordered,) = targets.targets_of(reference, problem, inputs, shake=True)
    assert torch.equal(usual.right, ordered.right) and usual.shape == ordered.shape
    assert (usual.reference_error, usual.sensitivity, usual.bound) == (
        *(ordered.reference_error, ordered.sensitivity),
        ordered.bound,
    )


def _all_of(target: right_answer.RightAnswer) -> tuple[Any, ...]:
    """What is judged by; of elements that jump all that is known of them."""
    jumps = {} if target._jumps is None else vars(target._jumps)
    known = [value.tolist() if isinstance(value, torch.Tensor) else value for value in jumps.values()]
    return target.bound, target.reference_error, target.sensitivity, target._movements, target.is_stable, known


@pytest.mark.parametrize("where", [1.0, 0.5], ids=["nothing jumps", "a number beside a half jumps"])
def test_large_answers_to_moved_inputs_are_let_go_of_one_by_one_and_judged_alike(
    problem: Open, monkeypatch: pytest.MonkeyPatch, where: float
) -> None:
    source = SOURCE.replace("torch.selu(x.t()).t() * 1.1", "x + torch.round(x), x * x")
    reference = open_reference(replace(problem, source=source, name="stepping"))
    inputs = [torch.full((60, 5), 0.25).add_(torch.arange(300).view(60, 5) * 1e-4)]
    inputs[0][7, 2] = where + 1e-7
    usual = targets.targets_of(reference, problem, inputs, shake=True)
    assert [target.jumps for target in usual] == [where == 0.5, False]

    answers: list[Callable[[], Any]] = []
    beside: list[int] = []
    precise = reference.precise

    def counted(*arguments: Any) -> Any:
        beside.append(sum(answer() is not None for answer in answers))
        outputs = precise(*arguments)
        answers.extend(weakref.ref(output.untyped_storage()) for output in outputs)
        return outputs

    monkeypatch.setattr(reference, "precise", counted)
    monkeypatch.setattr(right_answer, "LARGE", 100)
    measured = targets.targets_of(reference, problem, inputs, shake=True)
    assert max(beside) == 2, "both outputs as they are, none of those that moved"
    assert len(beside) >= 1 + 4 + 2 and list(map(_all_of, measured)) == list(map(_all_of, usual))


@pytest.mark.parametrize(
    ("host", "large_bytes", "is_kept"),
    [("cpu", 1, True), ("another", 1, False), ("another", 1 << 30, True)],
    ids=["a processor draws them", "a device draws them", "they are small"],
)
def test_large_inputs_that_a_device_draws_are_drawn_again_and_not_kept(
    problem: Open,
    reference: ReferenceProblem,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    large_bytes: int,
    is_kept: bool,
) -> None:
    monkeypatch.setattr(sizes, "LARGE_BYTES", large_bytes)
    # Where main memory has another name, a draw in it is one on a device.
    monkeypatch.setattr(examination, "HOST", host)
    examined = Examination(reference, problem)
    with torch.no_grad():
        examined.examine("main", drawn(reference, problem, "main"))
    assert (examined.lone is not None) == is_kept


@pytest.mark.parametrize("host", ["cpu", "another"], ids=["from its file", "drawn by the device"])
def test_what_an_accelerator_draws_is_not_read_from_a_file(
    problem: Open, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    read: list[int] = []
    monkeypatch.setattr(child, "HOST", host)
    unpacked = child.unpacked
    monkeypatch.setattr(child, "unpacked", lambda given, file: read.append(file) or unpacked(given, file))
    process = child._Reference()
    process.open(problem, [])
    base, files = process.make_case(MakeCase(case=0, shape="main", seed=1), [])
    command = MakeCase(case=1, shape="main", seed=2, kind="strided", base=base.inputs)
    made, others = process.make_case(command, list(files))
    assert not made.refused and bool(read) == (host == "cpu")
    wire.close_all([*files, *others])
