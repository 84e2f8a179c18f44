"""Operators that may take equal numbers in any order: what hangs on it convicts nobody, all else is judged."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.harness.reference.targets import targets_of
from kernelswarm.hardware.harness.reference.tie_order import FIRST, LAST, REVERSED, TieOrder
from kernelswarm.schemas import ProblemFormat, Verdict

from .conftest import problem_from

ROUTE = """
import torch
shapes = {"main": dict(tokens=64)}
def inputs(generator, tokens): return [torch.randn(tokens, 16, generator=generator)]
def reference(logits):
    chosen, experts = torch.topk(logits, 2, dim=-1)
    return torch.zeros_like(logits).scatter(-1, experts, chosen.softmax(-1)), experts
"""
ROUTE_BY_SOFTMAX = ROUTE.replace("torch.topk(logits", "torch.topk(logits.softmax(-1)")
FIRST_OF_EQUALS = """
import torch
def kernel(logits):
    ordered = torch.sort(logits, dim=-1, descending=True, stable=True)
    chosen, experts = ordered.values[:, :2], ordered.indices[:, :2].contiguous()
    return torch.zeros_like(logits).scatter(-1, experts, chosen.softmax(-1)), experts
"""
TWICE_THE_FIRST = FIRST_OF_EQUALS.replace("indices[:, :2]", "indices[:, :1].expand(-1, 2)")


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: torch.topk(x, 2),
        lambda x: torch.sort(x, descending=True),
        lambda x: torch.kthvalue(x, 2),
        lambda x: x.topk(k=2, dim=0),
        lambda x: torch.median(x, dim=-1),
    ],
)
def test_equal_numbers_are_met_and_taken_in_the_other_order(
    choose: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> None:
    equal, other = torch.zeros(5, 4), torch.randperm(20).view(5, 4).float()
    with TieOrder() as ties:
        choose(other)
    assert not ties.met
    with TieOrder() as ties:
        values, places = choose(equal)
    assert ties.met
    with TieOrder(order=REVERSED):
        same_values, other_places = choose(equal)
        there = choose(other)
    assert torch.equal(values, same_values) and not torch.equal(places, other_places)
    assert all(map(torch.equal, there, choose(other)))


@pytest.mark.parametrize(("order", "places"), [(FIRST, [0, 1, 2]), (LAST, [7, 6, 5])])
def test_equal_numbers_are_taken_by_their_places(order: str, places: list[int]) -> None:
    equal = torch.zeros(3, 8)
    with TieOrder(order=order):
        for chosen in (equal.topk(3), equal.topk(3, largest=False), equal.sort(), equal.sort(descending=True)):
            assert chosen.indices[:, :3].tolist() == [places] * 3
            assert torch.equal(chosen.values, equal[:, : chosen.values.shape[1]])


@pytest.mark.parametrize("choose", [lambda x: torch.argmax(x, -1), lambda x: x.max(-1), lambda x: x.sort(stable=True)])
def test_where_the_order_is_defined_nothing_is_noted(choose: Callable[[torch.Tensor], object]) -> None:
    with TieOrder() as ties:
        choose(torch.zeros(3, 4))
    assert not ties.met


def test_scores_that_are_computed_are_told_from_inputs() -> None:
    drawn = torch.randn(4, 5).double()
    with TieOrder() as given:
        torch.topk(drawn, 2)
    with TieOrder() as computed:
        torch.topk(drawn.softmax(-1), 2)
    assert not given.met_computed and computed.met_computed


def test_an_answer_that_hangs_on_nearly_equal_scores_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    problem = Open(name="route", format=ProblemFormat.function, source=ROUTE_BY_SOFTMAX, seed=1)
    reference = open_reference(problem)
    apart, beside = torch.tensor([[3.0, 1.0, 0.0, -1.0]]), torch.tensor([[3.0, 1.0, 1.0000002, -1.0]])
    for logits, hangs in ((apart, False), (beside, True)):
        targets = targets_of(reference, problem, [logits], shake=True)
        assert [target.hangs_on_ties for target in targets] == [hangs, hangs]


@pytest.mark.parametrize("rows", [torch.zeros(0, 4), torch.zeros(4, 1), torch.tensor(1.0)])
def test_what_holds_no_two_numbers_has_no_ties(rows: torch.Tensor) -> None:
    with TieOrder() as ties:
        torch.sort(rows, dim=-1)
    assert not ties.met


BALANCED = """
import torch
shapes = {"main": dict(tokens=128)}
def inputs(generator, tokens):
    return [torch.randn(tokens, 64, generator=generator), torch.randn(64, 8, generator=generator) / 8]
def reference(x, gate):
    scores = (x @ gate).softmax(-1)
    weights, places = scores.topk(2, -1)
    load = torch.nn.functional.one_hot(places, 8).float().sum(1).mean(0)
    return weights / weights.sum(-1, keepdim=True), (scores.mean(0) * load).sum() * 8
"""
BALANCED_BY_FIRST = """
import torch
def kernel(x, gate):
    scores = (x @ gate).softmax(-1)
    ordered = scores.sort(dim=-1, descending=True, stable=True)
    weights, places = ordered.values[:, :2], ordered.indices[:, :2]
    load = torch.zeros(8).index_add(0, places.flatten(), torch.ones(places.numel())) / len(x)
    return weights / weights.sum(-1, keepdim=True), (scores.mean(0) * load).sum() * 8
"""
UNBALANCED = BALANCED_BY_FIRST.replace("places.flatten()", "places.flatten().flip(0) * 0")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("reference", "kernel", "verdict"),
    [
        (ROUTE, FIRST_OF_EQUALS, Verdict.correct),
        (ROUTE, TWICE_THE_FIRST, Verdict.wrong_numbers),
        (BALANCED, BALANCED_BY_FIRST, Verdict.correct),
        (BALANCED, UNBALANCED, Verdict.wrong_numbers),
    ],
)
async def test_a_router_may_choose_any_of_equal_experts(
    device: Device, tmp_path: Path, reference: str, kernel: str, verdict: Verdict
) -> None:
    problem = problem_from(tmp_path, reference)
    report, _ = await device.compile(kernel, "cpp")
    verified = await device.verify(problem, kernel, report)
    assert verified.verdict is verdict, verified.evidence


WIDE = """
import torch
shapes = {"main": dict(tokens=64)}
def inputs(generator, tokens): return [torch.randn(tokens, 1024, generator=generator)]
def reference(logits):
    scores, places = torch.topk(logits.softmax(-1), 64)
    return scores / scores.sum(-1, keepdim=True), places
"""
RANKED = """
import torch
def kernel(logits):
    largest, places = torch.topk(logits, 64)
    return largest.softmax(-1), places
"""
CARELESS = """
import torch
def kernel(logits):
    scores, places = torch.topk(logits.exp(), 64)
    return scores / scores.sum(-1, keepdim=True), places
"""


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("kernel", "verdict"), [(RANKED, Verdict.correct), (CARELESS, Verdict.wrong_numbers)])
async def test_scores_are_judged_where_places_are_not_defined(
    device: Device, tmp_path: Path, kernel: str, verdict: Verdict
) -> None:
    problem = problem_from(tmp_path, WIDE)
    facts = await device.validate_problem(problem)
    refused = {kind.name for kind in facts.input_kinds if "equal numbers" in kind.refused}
    report, _ = await device.compile(kernel, "cpp")
    verified = await device.verify(problem, kernel, report)
    assert verified.verdict is verdict, verified.evidence
    assert not refused & {"heavy_tailed", "ill_conditioned", "dominated", "repeated"}, refused


@pytest.mark.asyncio(loop_scope="session")
async def test_an_answer_that_hangs_on_places_has_to_be_finite(device: Device, tmp_path: Path) -> None:
    spread = "torch.zeros_like(logits).scatter(-1, places, scores / scores.sum(-1, keepdim=True))"
    problem = problem_from(tmp_path, WIDE.replace("scores / scores.sum(-1, keepdim=True), places", spread))
    for kernel, verdict in ((RANKED, Verdict.correct), (CARELESS, Verdict.wrong_numbers)):
        source = kernel.replace(
            "return largest.softmax(-1), places", "scores = largest.softmax(-1)\n    return " + spread
        )
        source = source.replace("scores / scores.sum(-1, keepdim=True), places", spread)
        report, _ = await device.compile(source, "cpp")
        verified = await device.verify(problem, source, report)
        assert verified.verdict is verdict, verified.evidence
