"""What a capture cannot hold, in one true sentence; what it flattens; whether the generator knows what is left out."""

from typing import Any

import graphs
import pytest
import torch
from compared import facts_of
from msgspec import structs
from torch import nn

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.codegen.lowering.coverage import why_left, why_nothing
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.schemas import Graph, InputFact, ProblemError, ShapeFacts, StateFact, decode, encode


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, x: Any) -> Any:
        self.steps += 1
        return torch.tanh(x) * self.steps


class Views(nn.Module):
    """Writes a part of a buffer by another name."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(2, 8))
        self.mean = self.means[0]

    def forward(self, x: Any) -> Any:
        self.mean.mul_(0.9).add_(x.mean(0))
        return x - self.means.sum(0)


class Grows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(1, 8)

    def forward(self, x: Any) -> Any:
        self.seen = torch.cat((self.seen, x))
        return x - self.seen.mean(0)


TOTAL = torch.zeros(8)


def counts(x: Any) -> Any:
    return x - TOTAL.add_(x.mean(0))


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return x


FAILS = {
    "number": (Counter(), "the reference changes `steps`, a Python number, which generated kernels cannot write"),
    "part": (Views(), "changes `mean`, a tensor that lies in another's memory, which generated kernels cannot write"),
    "longer": (Grows(), "replaces `seen` by a tensor of another shape or dtype"),
    "tensor": (counts, "changes a tensor that is none of its inputs, which generated kernels cannot write"),
    "branches": (branches, "numbers or conditions of its tensors' values in line"),
    "classes": (lambda x: torch.nn.functional.one_hot(x.argmax(-1)), "give it num_classes"),
}


class Normed(torch.nn.Module):
    """As weight normalization does it: the weight is computed of others in every call, and stays until the next."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))
        self.weight = self.scale * 2

    def forward(self, x: Any) -> Any:
        self.weight = self.scale * 2
        return x * self.weight


def test_a_tensor_that_every_call_makes_anew_is_no_state() -> None:
    module = Normed()
    graph = capture(module, [torch.randn(5, 8)])

    assert [node.target for node in graph.nodes if node.op == "call"] == ["aten.mul.Tensor"] * 2
    assert type(module.weight) is torch.Tensor
    assert module.weight.tolist() == [2.0] * 8


@pytest.mark.parametrize("name", FAILS)
def test_why_nothing_was_captured_is_one_sentence(name: str) -> None:
    target, sentence = FAILS[name]
    with pytest.raises(ProblemError) as caught:
        capture(target, [torch.randn(5, 8)])
    text = str(caught.value)

    assert sentence in text
    assert "\n" not in text
    assert not {"GuardOnDataDependentSymNode", "Eq(", "u0", "FakeTensor"} & set(text.replace("(", " ").split())


def test_a_branch_on_values_is_named_by_its_line() -> None:
    with pytest.raises(ProblemError, match=r"in line \d+ \(`if x\.sum\(\) > 0:`\)"):
        capture(branches, [torch.randn(5, 8)])


def test_tensors_in_a_list_are_inputs_and_no_constants() -> None:
    graph = capture(lambda xs: xs[0] + xs[1], [[torch.randn(3), torch.randn(3)]], ["xs"])

    assert "constant" not in {node.op for node in graph.nodes}
    assert {node.target for node in graph.nodes if node.op == "call"} == {"aten.add.Tensor"}


def test_a_long_scan_is_cut_into_expressions_that_end() -> None:
    def scan(x: Any, a: Any) -> Any:
        h, steps = torch.zeros_like(x[:, 0]), []
        for t in range(128):
            h = a * h + x[:, t * t % 128]
            steps.append(h)
        return torch.stack(steps, 1)

    plan = plan_of(capture(scan, [torch.randn(2, 128, 4), torch.rand(4)]), Settings())
    assert 1 < len(plan.kernels) < 8
    assert {node.target for node in plan.externs} == {"aten.cat.default"}


def test_a_graph_with_writes_survives_json() -> None:
    graph = capture(nn.BatchNorm1d(8).train(), [torch.randn(5, 8)])
    assert decode(encode(graph), Graph) == graph


def test_complex_tensors_are_said_to_be_left() -> None:
    graph = capture(lambda x: torch.fft.rfft(x), [torch.randn(4, 16)], ["x"])
    assert plan_of(graph, Settings()).kernels == []
    assert why_nothing(graph) == "complex tensors are left to PyTorch: nothing else to fuse"


def shape(name: str, **sizes: tuple[int, ...]) -> ShapeFacts:
    facts = [InputFact(name=key, kind="tensor", shape=size, dtype="float32") for key, size in sizes.items()]
    return ShapeFacts(name=name, inputs=tuple(facts), outputs=())


def test_a_branch_that_another_shape_takes_is_left_to_pytorch() -> None:
    graph = capture(lambda x: torch.tanh(sum(x.unbind(0))), [torch.randn(6, 40)], ["x"])
    main, ragged = shape("main", x=(6, 40)), shape("ragged", x=(3, 7))
    facts = structs.replace(facts_of(graph, None), shapes=(main,))

    assert why_left(facts) == ""
    reason = why_left(structs.replace(facts, shapes=(main, ragged)))
    assert reason.startswith("the reference branches on sizes, and goes another way at shape 'ragged'")
    assert "`x.shape[0] == 6`" in reason


def test_another_number_of_dimensions_is_left_to_pytorch() -> None:
    facts = structs.replace(graphs.facts(graphs.softmax()), shapes=(shape("deep", x=(2, 3, 4)),))
    assert "`x` has 3 dimensions of float32, at the first shape 2 of float32" in why_left(facts)


def test_another_number_at_another_shape_is_left_to_pytorch() -> None:
    graph = capture(lambda x, scale: x * scale, [torch.randn(6, 40), 0.5], ["x", "scale"])
    fact = InputFact(name="scale", kind="float", literal="0.25")
    facts = structs.replace(facts_of(graph, None), shapes=(ShapeFacts(name="other", inputs=(fact,), outputs=()),))
    assert "`scale` is 0.25, at the first shape 0.5" in why_left(facts)


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (StateFact(name="running_mean", kind="buffer"), ""),
        (StateFact(name="steps", kind="attribute"), "changes `steps`, no parameter or buffer"),
        (StateFact(name="weight", kind="parameter"), "changes `weight` in a way that the captured graph does not show"),
    ],
)
def test_what_the_graph_does_not_write_is_left_to_pytorch(fact: StateFact, reason: str) -> None:
    module = nn.BatchNorm1d(8).train()
    facts = structs.replace(facts_of(capture(module, [torch.randn(5, 8)]), module), state=(fact,))
    assert (reason in why_left(facts)) if reason else (why_left(facts) == "")
