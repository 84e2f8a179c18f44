"""Inputs that hold tensors, and results that are objects: captured, drafted, right at other sizes."""

from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import facts_of, loaded, tensors
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.capture.capture import capture

Pair = namedtuple("Pair", "first second")


@dataclass
class Settings:
    scale: float
    weight: torch.Tensor


@dataclass
class Output:
    hidden: torch.Tensor
    count: int
    loss: torch.Tensor


def of_a_dictionary(x: torch.Tensor, more: dict[str, Any]) -> torch.Tensor:
    return torch.tanh(x * more["scale"]) + more["parts"][1]


def of_an_object(x: torch.Tensor, settings: Settings) -> torch.Tensor:
    return F.gelu(x) * settings.weight * settings.scale


def named(x: torch.Tensor) -> Pair:
    return Pair(torch.tanh(x), x.exp())


def an_object(x: torch.Tensor) -> Output:
    return Output(torch.tanh(x), 3, x.square().mean())


def with_sizes(x: torch.Tensor) -> Output:
    return Output(torch.tanh(x), x.shape[0] * x.shape[1], x.square().mean())


def gaussian(x: torch.Tensor, y: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    return F.gaussian_nll_loss(x, y, variance, full=True)


def case(name: str, count: int) -> tuple[Any, list[Any]]:
    """A target and its inputs."""
    x = torch.randn(count, 8)
    return {
        "dictionary": (of_a_dictionary, [x, {"scale": torch.rand(8), "parts": [3, torch.randn(count, 8)]}]),
        "object": (of_an_object, [x, Settings(0.5, torch.rand(8))]),
        "named tuple": (named, [x]),
        "dataclass": (an_object, [x]),
        "sizes in a dataclass": (with_sizes, [x]),
        "gaussian": (gaussian, [x, torch.randn(count, 8), torch.rand(count, 8)]),
        "LSTM cell": (torch.nn.LSTMCell(8, 4), [x, (torch.randn(count, 4), torch.randn(count, 4))]),
    }[name]


def parts(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = vars(value).values() if isinstance(value, Output) else value if isinstance(value, tuple) else ()
    return [part for item in items for part in parts(item)]


@pytest.mark.parametrize(
    "name", ["dictionary", "object", "named tuple", "dataclass", "sizes in a dataclass", "gaussian", "LSTM cell"]
)
def test_a_draft_is_right_by_its_kernels_and_by_its_plain_calls(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    target, inputs = case(name, 5)
    with torch.no_grad():
        graph = capture(target, inputs)
    file = loaded(CODEGEN_BACKENDS["cpp"].source(facts_of(graph, target), graph, {}, HARDWARE), tmp_path / "draft.py")
    kernel: Any = file.ModelNew() if isinstance(target, torch.nn.Module) else file.kernel
    if isinstance(target, torch.nn.Module):
        kernel.load_state_dict(target.state_dict())
    params = [tensors(target)[node.target] for node in graph.nodes if node.op == "param"]
    for count in (5, 9):
        _, given = case(name, count)
        with torch.no_grad():
            want, plain = parts(target(*given)), parts(file._aten(*given, *params))
            aten = file._aten
            file._aten = None  # type: ignore[attr-defined]
            got = parts(kernel(*given))
            file._aten = aten  # type: ignore[attr-defined]
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(plain, want, rtol=1e-4, atol=1e-5)


def test_a_size_that_is_taken_as_a_number_is_a_condition() -> None:
    graph = capture(lambda x: F.adaptive_max_pool2d(x, (3, None)) * 2, [torch.randn(2, 3, 8, 6)], ["x"])
    assert graph.decided == ("x.shape[3] == 6",)
