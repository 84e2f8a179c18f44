"""What cannot be traced is named with the line of the user's module, and with what helps."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from kernelswarm.api.searching import problem_of
from kernelswarm.schemas import InputError, ProblemError

X = torch.randn(4, 8)


class Calling(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.linear(x))


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * 2)


def beside_numpy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(np.tanh(x.detach()).numpy())


def through_a_list(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor(x.tolist())


@pytest.mark.parametrize("function", [through_numpy, beside_numpy, through_a_list])
def test_values_that_leave_pytorch_are_named_by_their_line(function: Any) -> None:
    """What came back beside the inputs was a constant of the graph, and the kernel's numbers were wrong."""
    with pytest.raises(ProblemError) as caught:
        problem_of(Calling(function), [X])
    line = function.__code__.co_firstlineno + 1
    assert f"takes its tensors out of PyTorch in line {line} of {__file__}" in str(caught.value)


def test_values_of_constants_may_leave_pytorch() -> None:
    sizes = torch.tensor([2, 4])
    traced = problem_of(Calling(lambda x: x.view([*sizes.tolist(), 4])), [X])
    assert "[2, 4, 4]" in traced.problem.source


def test_a_part_of_a_library_is_named_where_no_line_is_the_users() -> None:
    with pytest.raises(ProblemError, match="RuntimeError in its part '1', a Linear: mat1 and mat2"):
        problem_of(nn.Sequential(nn.Linear(8, 16), nn.Linear(8, 8)), [X])
    with pytest.raises(InputError, match="first call fails: RuntimeError in its part '1', a Linear: mat1"):
        problem_of(nn.Sequential(nn.LazyLinear(4), nn.Linear(9, 9)), [X])


DROPOUTS = {
    "functional": (lambda: Calling(lambda x: functional.dropout(x, 0.1)), X),
    "attention": (lambda: nn.MultiheadAttention(8, 2, dropout=0.1), X),
    "recurrent": (lambda: nn.LSTM(8, 8, 2, dropout=0.1), X),
    "rrelu": (nn.RReLU, X),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_within_other_modules_names_eval(name: str) -> None:
    make, x = DROPOUTS[name]
    inputs = [x, x, x] if name == "attention" else [x]
    with pytest.raises(ProblemError, match=r"it is in training mode, and calls `\w+`; call \.eval\(\) on it"):
        problem_of(make(), inputs)
    if name == "functional":
        with pytest.raises(ProblemError, match="it calls `dropout` as in training; give that `training=False`"):
            problem_of(make().eval(), inputs)
    else:
        problem_of(make().eval(), inputs)


def test_no_dropout_is_no_reason() -> None:
    for module in (nn.MultiheadAttention(8, 2), nn.LSTM(8, 8), Calling(lambda x: functional.dropout(x, 0.0))):
        problem_of(module, [X, X, X] if isinstance(module, nn.MultiheadAttention) else [X])


class Mask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", None, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mask is None:
            self.mask = torch.ones(x.shape[-1], x.shape[-1]).tril()
        return x @ self.mask


class LateMask(Mask):
    def __init__(self) -> None:
        super().__init__()
        del self.mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "mask"):
            self.register_buffer("mask", torch.ones(x.shape[-1], x.shape[-1]).tril())
        return x @ self.mask


@pytest.mark.parametrize("kind", [Mask, LateMask])
def test_a_buffer_that_the_first_call_makes_is_named_and_not_there_afterwards(kind: type[Mask]) -> None:
    module = nn.Sequential(nn.Linear(8, 8), kind())
    before = dict(module[1]._buffers)
    with pytest.raises(ProblemError, match="makes its buffer 'mask'; call it once before the search"):
        problem_of(module, [X])
    assert module[1]._buffers == before
    module(X)
    assert "matmul" in problem_of(module, [X]).problem.source


@dataclass
class Result:
    values: torch.Tensor


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (lambda x: Result(x.tanh()), "it returns a Result; return tensors and numbers, or tuples"),
        (lambda x: torch.vmap(lambda row: (row * 2).tanh())(x), "without transforms of torch.func"),
        (lambda x: torch.func.grad(lambda y: (y**3).sum())(x), "without transforms of torch.func"),
        (
            lambda x: torch._higher_order_ops.associative_scan(torch.add, x, 0, combine_mode="generic"),
            "without transforms of torch.func",
        ),
        (torch.compile(nn.Linear(8, 8)), "is wrapped by torch.compile; give the module that was wrapped"),
    ],
)
def test_what_is_no_graph_is_said(operator: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        problem_of(operator, [X])


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_a_named_tuple_is_a_tuple_in_the_problem() -> None:
    traced = problem_of(lambda x: Pair(x.tanh(), {"most": x.exp()}), [X])
    reference: dict[str, Any] = {}
    exec(traced.problem.source, reference)
    first, second = reference["reference"](X)
    assert torch.equal(first, X.tanh()) and torch.equal(second["most"], X.exp())
    assert traced.structure.context is Pair


def test_weights_of_a_module_that_a_function_closes_over_are_constants() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    traced = problem_of(lambda x: attention(x, x, x, need_weights=False)[0], [X[None]])
    reference: dict[str, Any] = {}
    exec(traced.problem.source, reference)
    torch.testing.assert_close(
        reference["reference"](X[None], *traced.parameters), attention(X[None], X[None], X[None])[0]
    )
