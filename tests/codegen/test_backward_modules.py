"""Modules whose problems ask for the backward pass: gradients of inputs by the kernels, of parameters by PyTorch."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from compared import facts_of, loaded, same, tensors
from graphs import HARDWARE
from torch import nn

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.capture.capture import capture, capture_backward
from kernelswarm.hardware.harness.calls.backward import cotangents, differentiated


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Any, times: int) -> Any:
        return {"y": x + self.net(self.norm(x)) * times, "best": x.argmax(-1)}


CONVOLUTION = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()).train()
MODULES = {
    "residual": (Residual(), lambda n: [torch.randn(n, 16), 3]),
    "batch_norm_train": (CONVOLUTION, lambda n: [torch.randn(n, 4, 6, 7)]),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_are_the_references(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.manual_seed(0)
    module, maker = MODULES[name]
    reference, inputs = copy.deepcopy(module), maker(5)
    names = [f"input_{place}" for place in range(len(inputs))]
    graph = capture(module, inputs, names)
    given = [*inputs, cotangents(copy.deepcopy(module)(*inputs), 1)]
    _, backward = capture_backward(module, differentiated, given, [*names, "cotangents"])
    source = CODEGEN_BACKENDS["cpp"].source(facts_of(graph, module, backward), graph, {}, HARDWARE)
    candidate = loaded(source, tmp_path / "candidate.py").ModelNew()
    candidate.load_state_dict(module.state_dict())

    for count in (5, 9):
        arguments = [*maker(count), cotangents(copy.deepcopy(module)(*maker(count)), count)]
        same(differentiated(candidate)(*arguments), differentiated(reference)(*arguments), "both passes")
        same(_followed(candidate, arguments), _followed(reference, arguments), "parameters")
        same(tensors(candidate), tensors(reference), "state")


def _followed(model: nn.Module, arguments: list[Any]) -> dict[str, Any]:
    """The parameters' gradients, by name."""
    *inputs, weights = arguments
    model.zero_grad()
    results = model(*inputs)
    results = [results["y"]] if isinstance(results, dict) else [results]
    sum((output * weight).mean() for output, weight in zip(results, weights, strict=True)).backward()
    return dict(sorted((name, weight.grad) for name, weight in model.named_parameters()))
