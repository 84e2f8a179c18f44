"""``optimize(module, [inputs_a, inputs_b])``: one problem with a timed shape for each call, one kernel for all."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from winning import ROWS, Scale, calls_of, optimized

import kernelswarm
from kernelswarm.api.searching import problem_of
from kernelswarm.hardware.sources.from_python import Traced
from kernelswarm.schemas import InputError, ProblemError


class Attention(nn.Module):
    """As people write it: sizes are read off the input."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.projection(x).reshape(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        return attended.transpose(1, 2).reshape(batch * length, width)


def executed(traced: Traced) -> dict[str, Any]:
    problem: dict[str, Any] = {}
    exec(compile(traced.problem.source, "<problem>", "exec"), problem)
    return problem


@pytest.mark.parametrize(
    ("operator", "calls"),
    [
        (Attention(), [[torch.randn(4, 16, 32)], [torch.randn(2, 5, 32)], [torch.randn(1, 1, 32)]]),
        (nn.Conv2d(3, 4, 3), [[torch.randn(1, 3, 8, 8)], {"input": torch.randn(2, 3, 9, 9)}]),
        (lambda x, y: torch.cat([x, y])[1:] * 2, [[torch.randn(4, 3), torch.randn(5, 3)], [torch.randn(7, 3)] * 2]),
        (nn.LSTM(8, 4), [[torch.randn(5, 2, 8)], [torch.randn(3, 2, 8)]]),
    ],
    ids=["attention", "convolution", "function", "lstm"],
)
def test_the_reference_is_right_at_every_call(operator: Any, calls: list[Any]) -> None:
    traced = problem_of(operator, calls, range(1, len(calls) + 1))
    problem = executed(traced)

    assert list(problem["timed"].values()) == [float(number) for number in range(1, len(calls) + 1)]
    for (name, sizes), inputs in zip(problem["shapes"].items(), traced.calls, strict=True):
        drawn = problem["inputs"](torch.Generator().manual_seed(0), **sizes)
        arguments = [*inputs.values(), *traced.parameters]
        assert [value.shape for value in drawn] == [value.shape for value in arguments]
        assert name == "x".join(map(str, next(iter(inputs.values())).shape))
        pairs = zip(tree_leaves(problem["reference"](*arguments)), tree_leaves(operator(*inputs.values())), strict=True)
        assert all(torch.allclose(got, right, atol=1e-6) for got, right in pairs)


def test_sizes_that_follow_from_others_become_expressions() -> None:
    traced = problem_of(
        lambda x: x.reshape(x.shape[0] // 2, -1)[: x.shape[0] - 3], [[torch.ones(8, 3)], [torch.ones(6, 5)]]
    )

    assert "x.shape[0] // 2" in traced.problem.source and "x.shape[0] - 3" in traced.problem.source


@pytest.mark.parametrize(
    ("operator", "calls", "sentence"),
    [
        (lambda x: x if len(x) > 3 else x * 2, [[torch.ones(4)], [torch.ones(2)]], "search each alone"),
        (
            lambda x: x[: {4: 1, 2: 2, 6: 5}[len(x)]],
            [[torch.ones(n)] for n in (4, 2, 6)],
            "1, 2, 5, and no size says why",
        ),
        (lambda x, y=1: x * y, [[torch.ones(4)], [torch.ones(2), 2.0]], "call 2 has other arguments"),
        (lambda x: x.shape, [[torch.ones(4)], []], "does not take these inputs"),
    ],
    ids=["ways", "sizes", "arguments", "none"],
)
def test_what_is_no_one_operator_is_refused(operator: Any, calls: list[Any], sentence: str) -> None:
    with pytest.raises(ProblemError, match=sentence):
        problem_of(operator, calls)


def test_a_mode_that_matters_to_one_call_alone_is_a_setting() -> None:
    class Clamped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clamp(-1, 1) if self.training and len(x) > 8 else x * 2

    rows = {"x": {0: torch.export.Dim("rows", min=2, max=20)}}
    traces = [
        problem_of(Clamped().eval(), [[torch.ones(4)], [torch.ones(12)]]),
        problem_of(Clamped().eval(), [torch.ones(4)], dynamic_shapes=rows),
    ]
    assert [each.settings[0][1]["training"] for each in traces] == [False, False]
    both = problem_of(Clamped().eval(), [[torch.ones(4)], [torch.ones(6)]])
    assert both.settings[0][1]["training"] is None, "it matters to neither"


def test_prefill_and_decode_with_another_structure_of_the_cache_name_the_way_out() -> None:
    def attend(x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        keys, values = (x, x) if cache is None else (torch.cat([past, x], 1) for past in cache)
        return nn.functional.scaled_dot_product_attention(x, keys, values)

    past, x = torch.randn(2, 6, 8), torch.randn(2, 1, 8)
    with pytest.raises(ProblemError, match=r"call 2 has other arguments .*`b = optimize\(module, call_2\)`"):
        problem_of(attend, [[past, None], [x, (past, past)]])
    for call, result in (([past, None], (past, None)), ([x, (past, past)], (x, (past, past)))):
        kernel = optimized(attend, call, "def kernel(*tensors):\n    raise NotImplementedError\n", win=False).kernel
        assert torch.equal(kernel(*result), attend(*result))


def test_weights_are_of_several_calls() -> None:
    with pytest.raises(InputError, match="give `inputs` as a list of their arguments"):
        problem_of(Scale(), [torch.ones(4, 8)], [1.0])
    with pytest.raises(ProblemError, match="2 calls, weights"):
        problem_of(Scale(), [[torch.ones(4, 8)], [torch.ones(2, 8)]], [1.0])
    with pytest.raises(ProblemError, match="above 0 for each call"):
        problem_of(Scale(), [[torch.ones(4, 8)], [torch.ones(2, 8)]], [1.0, 0.0])


@pytest.mark.filterwarnings("ignore:.*computes calls itself:RuntimeWarning")
def test_the_kernel_takes_every_call_and_no_other() -> None:
    module = Scale()
    won = optimized(module, [[torch.ones(4, 8)], [torch.ones(2, 8)]])
    with torch.no_grad():
        for rows, calls in ((4, 1), (2, 2), (3, 2)):
            x = torch.randn(rows, 8)
            assert torch.allclose(won.kernel(x), module(x))
            assert calls_of(won) == calls


def test_a_kernel_is_put_in_only_if_it_is_right_at_every_call() -> None:
    model = nn.Sequential(Scale())
    right = optimized(model[0], [[torch.ones(4, 8)], [torch.ones(2, 8)]])
    assert kernelswarm.apply(model, right).names == ("0",)
    model = nn.Sequential(Scale())
    wrong = "def kernel(x, weight):\n    return x * weight + (1e-6 if len(x) == 4 else 1)\n"
    with pytest.raises(InputError, match="differs from its own"):
        kernelswarm.apply(model, optimized(model[0], [[torch.ones(4, 8)], [torch.ones(2, 8)]], wrong), "0")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (ROWS.double(), r"another dtype than searched \(x: torch.float64, searched torch.float32\): give them as"),
        (ROWS.t().contiguous().t(), r"another layout than searched \(x: strides \(1, \d+\), searched contiguous\)"),
    ],
)
def test_the_first_call_of_another_kind_is_a_warning(given: torch.Tensor, sentence: str) -> None:
    won = optimized(Scale(), [ROWS])
    with torch.no_grad():
        with pytest.warns(RuntimeWarning, match=sentence):
            won.kernel(given)
        won.kernel(given)
    assert won.calls == {"operator: other inputs": 2}
