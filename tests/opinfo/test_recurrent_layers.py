"""Recurrent layers are captured whole: right at every length, on every device, with and without a backward pass."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelswarm.bench.opinfo.drafts import captured, draft, imported, loaded
from kernelswarm.bench.opinfo.sample import Sample
from kernelswarm.hardware.capture.capture import capture, capture_backward
from kernelswarm.hardware.harness.calls.backward import differentiated
from kernelswarm.schemas.graph import ComplexNumber

LAYERS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {"num_layers": 2}),
    "lstm projected": (nn.LSTM, {"proj_size": 3, "bidirectional": True}),
    "gru": (nn.GRU, {"batch_first": True}),
    "rnn": (nn.RNN, {"nonlinearity": "relu"}),
}
TARGETS = {"lstm": "aten.lstm.input", "lstm projected": "aten.lstm.input", "gru": "aten.gru.input"}


class Tagger(nn.Module):
    """An embedding, a recurrent layer, and a linear one behind it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        layer, settings = LAYERS[name]
        self.embedding = nn.Embedding(20, 6)
        self.layer = layer(6, 8, **settings)
        self.head = nn.LazyLinear(5)
        self(torch.zeros(2, 3, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> Any:
        output, state = self.layer(torch.tanh(self.embedding(x)))
        return self.head(torch.relu(output)), state


@pytest.mark.parametrize("name", LAYERS)
def test_a_draft_is_right_at_other_lengths(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sample = Sample(Tagger(name), [torch.randint(20, (4, 7))], ["x"])
    graph = captured(sample)
    proposal = draft(graph, [sample], "cpp")
    assert not isinstance(proposal, str)
    module = imported(proposal.source, "candidate")
    kernel, other = loaded(module, sample), torch.randint(20, (3, 11))
    values = dict(kernel.named_parameters())
    plain = module._aten(other, *(values[path] for path in proposal.params))

    assert TARGETS.get(name, "aten.rnn_relu.input") in {node.target for node in graph.nodes}
    assert graph.decided == ()
    torch.testing.assert_close(kernel(other), sample.target(other))
    torch.testing.assert_close(plain, sample.target(other))


class Cast(nn.Module):
    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.layer = layer(6, 8)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(x)[0]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_autocast_reaches_them_as_it_does_the_reference(layer: type[nn.Module], dtype: torch.dtype) -> None:
    module, x = Cast(layer).to(dtype), torch.randn(4, 3, 6, dtype=dtype)
    with torch.no_grad():
        expected = module(x)
    graph = capture(module, [x])
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    types = {node.name: node.values[0].dtype for node in graph.nodes if node.values}
    assert f"torch.{types[output.name]}" == str(expected.dtype)  # type: ignore[union-attr]


def test_gradients_go_through_every_step() -> None:
    layer = nn.GRU(6, 8)
    inputs = [torch.randn(2, 2, 6), (torch.randn(2, 2, 8), torch.randn(1, 2, 8))]
    joint, gradients = capture_backward(layer, differentiated, inputs, ["input", "cotangents"])
    targets = {node.target for node in (*joint.nodes, *gradients.nodes)}
    assert "aten.gru.input" not in targets
    assert not any("mkldnn" in target for target in targets)


def test_random_numbers_between_layers_are_seen() -> None:
    layer = nn.LSTM(6, 8, num_layers=2, dropout=0.5)
    targets = {node.target for node in capture(layer, [torch.randn(2, 2, 6)]).nodes}
    assert "aten.lstm.input" not in targets
    assert any("bernoulli" in target or "dropout" in target or "rand" in target for target in targets)


def test_the_layout_that_a_copy_asks_for_is_kept() -> None:
    graph = capture(lambda x: x.t().contiguous(), [torch.randn(4, 6)], ["x"])
    (copy,) = (node for node in graph.nodes if node.target == "aten.clone.default")
    assert copy.kwargs["memory_format"].name == "contiguous_format"


def test_complex_numbers_are_written_out() -> None:
    graph = capture(lambda x: torch.full((2,), 1 - 2j) * x, [torch.randn(2)], ["x"])
    (full,) = (node for node in graph.nodes if node.target.startswith("aten.full"))
    assert full.args[-1] == ComplexNumber(value="1-2j")
