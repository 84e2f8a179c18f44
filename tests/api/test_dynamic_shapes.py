"""``optimize(module, inputs, dynamic_shapes=...)``: which sizes a kernel stands in for, and what a user hears of it."""

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from winning import ROWS, Scale, calls_of, optimized

import kernelswarm
from kernelswarm.api.searching import problem_of
from kernelswarm.hardware.sources import symbolic_trace
from kernelswarm.schemas import InputError, ProblemError

BATCH = torch.export.Dim("batch", min=1, max=40)
TOKENS = torch.export.Dim("tokens", min=2, max=30)
X = torch.randn(8, 16)
COUNTED = "calls = 0\ndef kernel(x):\n    global calls\n    calls += 1\n"


class Rotary(nn.Module):
    """Attention whose rotary tables are made at every call, from the sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(16, 48)
        self.register_buffer("frequencies", 1 / 100 ** (torch.arange(0, 4, 2) / 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.projection(x).view(batch, tokens, 3, 4, 4).permute(2, 0, 3, 1, 4)
        angles = torch.arange(tokens)[:, None] * self.frequencies
        angles = torch.cat([angles, angles], -1)

        def rotated(y: torch.Tensor) -> torch.Tensor:
            left, right = y.chunk(2, -1)
            return y * angles.cos() + torch.cat([-right, left], -1) * angles.sin()

        attended = nn.functional.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return attended.transpose(1, 2).reshape(batch, tokens, width)


class Block(nn.Module):
    """Of a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


def of(function: Callable[[torch.Tensor], Any]) -> nn.Module:
    """A module that calls it."""
    kind = type("Called", (nn.Module,), {"forward": lambda self, x: function(x)})
    return kind()


CONVOLUTIONS = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
OPERATORS = {
    "linear": (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), X, {0: BATCH}),
    "layer norm": (nn.LayerNorm(16), X, {0: BATCH}),
    "convolutions": (CONVOLUTIONS, torch.randn(20, 3, 8, 8), {0: BATCH}),
    "transformer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), X[:, None] * X, {0: BATCH}),
    "gru": (nn.GRU(16, 8, batch_first=True), torch.randn(8, 5, 16), {0: BATCH}),
    "block": (Block().eval(), torch.randn(8, 5, 16), {0: BATCH, 1: TOKENS}),
    "rotary": (Rotary(), torch.randn(8, 5, 16), {0: BATCH, 1: TOKENS}),
    "mean": (of(lambda x: x - x.mean(0)), X, {0: BATCH}),
    "size": (of(lambda x: x / x.shape[0] + torch.arange(x.shape[0])[:, None]), X, {0: BATCH}),
    "training": (nn.BatchNorm1d(16), X, {0: torch.export.Dim("batch", min=2, max=40)}),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_reference_is_the_operator_at_every_size(name: str) -> None:
    operator, x, dims = OPERATORS[name]
    label = {"gru": "input", "convolutions": "input", "transformer": "src"}.get(name, "x")
    label = "input" if isinstance(operator, (nn.Sequential, nn.LayerNorm, nn.BatchNorm1d)) else label
    traced = problem_of(operator, [x], dynamic_shapes={label: dims})
    problem: dict[str, Any] = {}
    exec(compile(traced.problem.source, "<problem>", "exec"), problem)

    assert "main" in problem["shapes"] and "timed" not in problem
    low = next(iter(dims.values())).min
    for size in range(low, 41, 3):
        sizes = (size, *(2 + size % 29 for _ in list(dims)[1:]))
        assert sizes in traced.covered
        drawn = problem["inputs"](torch.Generator().manual_seed(0), *sizes)
        assert drawn[0].shape == (*sizes, *x.shape[len(sizes) :])
        values = torch.randn(drawn[0].shape)
        held = [value.clone() for value in traced.parameters]
        expected = copy.deepcopy(operator)(values)
        for got, right in zip(tree_leaves(problem["reference"](values, *held)), tree_leaves(expected), strict=True):
            assert got.shape == right.shape and torch.allclose(got, right, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: x * 2 if x.shape[0] > 37 else x + 1, "batch=40"),
        (lambda x: x * 2 if x.shape[0] == 23 else x + 1, r"another way at batch=23 \(it calls other operators\)"),
        (lambda x: x * (3 if x.shape[0] == 23 else 2), r"another way at batch=23 \(it calls other operators\)"),
        (lambda x: x * {8: 2.0, 17: 3.0}.get(x.shape[0], 1.0), "other operators, or numbers"),
        (lambda x: x * math.log(x.shape[0]), "other operators, or numbers"),
        (lambda x: x.reshape(8, 2, 8).sum(1), "with batch=1: .* cannot be traced"),
        (lambda x: x[: min(x.shape[0], 30)], "batch=8; batch=1; .* no size says why: give `dynamic_shapes` ranges"),
        (lambda x: sum(x[at] for at in range(x.shape[0])), "other operators, or numbers"),
        (lambda x: x.view(2, x.shape[0] // 2, 16).sum(0), "with batch=1: .* cannot be traced"),
        (lambda x: x + torch.tensor([float(x.shape[0])]), "other constants"),
        (lambda x: x * {"23": 3.0}.get(str(x.shape[0]), 1.0), r"another way at batch=\d+"),
        (lambda x: x * {"(23, 16)": 3.0}.get(f"{tuple(x.shape)}", 1.0), r"another way at batch=\d+"),
        (lambda x: x * (3 if isinstance(x.shape[0], int) and x.shape[0] == 11 else 2), "another way at batch=11"),
        (lambda x: x * (3 if type(x.shape[0]) is int and x.shape[0] == 11 else 2), "another way at batch=11"),
        (lambda x: x * (3 if x.untyped_storage().nbytes() == 11 * 64 else 2), "another way at batch=11"),
        (lambda x: x.clamp(-9, 9) if isinstance(x.shape[0], int) and x.shape[0] == 11 else x * 2, "other operators"),
    ],
    ids=[
        "branch",
        "single",
        "number",
        "table",
        "logarithm",
        "fixed",
        "least",
        "loop",
        "halves",
        "constant",
        "text",
        "shape",
        "instance",
        "type",
        "storage",
        "no number",
    ],
)
def test_an_operator_that_is_another_at_some_size_is_refused(
    function: Callable[[torch.Tensor], Any], sentence: str
) -> None:
    with pytest.raises(ProblemError, match=sentence):
        problem_of(of(function), [X], dynamic_shapes={"x": {0: BATCH}})


def test_a_weight_of_zeros_is_not_another() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.usual, self.even = (nn.Parameter(torch.zeros(16)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (self.usual if x.shape[0] % 8 else self.even)

    with pytest.raises(ProblemError, match=r"another way at batch=8 \(it calls other operators\)"):
        problem_of(Biased(), [X[:7]], dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=39)}})


def test_a_range_without_the_sizes_of_another_way_is_taken() -> None:
    module = of(lambda x: x * 2 if x.shape[0] > 37 else x + 1)
    traced = problem_of(module, [X], dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=37)}})
    assert (37,) in traced.covered and (38,) not in traced.covered


def printing(x: torch.Tensor) -> torch.Tensor:
    print(f"{x.shape[0]} rows")
    return x.relu()


NUMBERS = {
    "len": lambda x: x * len(x),
    "text": printing,
    "kind": lambda x: x * (2 if isinstance(x.shape[0], int) else 3) + x.shape[0],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_sizes_that_become_numbers_are_run_one_by_one_if_they_are_few(name: str) -> None:
    function = NUMBERS[name]
    traced = problem_of(of(function), [X], dynamic_shapes={"x": {0: BATCH}})
    assert {*traced.covered.traced} == {(size,) for size in range(1, 41)}  # type: ignore[attr-defined]
    dims = {0: torch.export.Dim("batch", min=1, max=4000)}
    with pytest.raises(ProblemError, match=r"makes a number of a size \(.*256, or as many as take 10 s. Use `x.shape`"):
        problem_of(of(function), [X], dynamic_shapes={"x": dims})


def test_nothing_that_the_runs_write_shows_in_the_module() -> None:
    norm = nn.BatchNorm1d(16)
    before = copy.deepcopy(norm.state_dict())
    problem_of(norm, [X], dynamic_shapes={"input": {0: torch.export.Dim("batch", min=2, max=40)}})
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


def test_a_size_that_was_not_tried_before_the_search_is_when_a_call_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic_trace, "_SWEPT", 3)
    module = of(lambda x: x * 2 if x.shape[0] == 23 else x + 1)
    won = optimized(module, [X], COUNTED + "    return x + 1\n", x=BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (22, 23, 24):
            x = torch.randn(rows, 16)
            assert torch.equal(won.best(x), module(x))
    assert calls_of(won) == 2 and won.calls == {"kernel": 2, "operator: other shapes": 1}


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ({"y": {0: BATCH}}, "names 'y': the tensors among the inputs are x"),
        (BATCH, "is a Dim: name the inputs, for example"),
        ([{0: BATCH}, None], "has 2 elements for the arguments x: name them"),
        ({"x": BATCH}, "give dimensions, for example"),
        ({"x": {2: BATCH}}, "names dimension 2 of 'x', which has 2"),
        ({"x": {0: torch.export.Dim("batch")}}, "give a Dim with min and max"),
        ({"x": {0: torch.export.Dim.AUTO}}, "give a Dim with min and max"),
        ({"x": {0: torch.export.Dim("batch", min=9, max=20)}}, "dimension 0 of 'x' is 4, not 9 to 20"),
        ({"x": {0: BATCH, 1: BATCH}}, "batch is 8 in 'x', and another size"),
        ({"x": {0: torch.export.Dim("torch", min=1, max=20)}}, "give each size a name"),
    ],
)
def test_what_names_no_size_is_refused(shapes: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        problem_of(Scale(), [ROWS], dynamic_shapes=shapes)


def test_a_view_is_refused_and_a_problem_file_draws_its_own_inputs() -> None:
    with pytest.raises(InputError, match=r"give it \.contiguous\(\)"):
        problem_of(Scale(), [ROWS.t().contiguous().t()], dynamic_shapes={"x": {0: BATCH}})
    with pytest.raises(InputError, match="leave `inputs` and `dynamic_shapes` out"):
        problem_of("problem.py", None, dynamic_shapes={"x": {0: BATCH}})


def test_several_calls_are_timed_and_other_sizes_are_not() -> None:
    traced = problem_of(Scale(), [[ROWS], [ROWS[:2]]], [3, 1], dynamic_shapes={"x": {0: BATCH}})
    problem: dict[str, Any] = {}
    exec(traced.problem.source, problem)
    assert problem["timed"] == {"batch_4": 3.0, "batch_2": 1.0}
    assert [sizes["batch"] for sizes in problem["shapes"].values()] == [each["x"].shape[0] for each in traced.calls]
    with pytest.raises(InputError, match="call 2 has to differ from the others in batch"):
        problem_of(of(torch.relu), [[X], [X[:4, :4]]], dynamic_shapes={"x": {0: BATCH}})


@pytest.mark.parametrize("second", [[X[0], X[0]], [X], [X, 3.0]], ids=["ranks", "fewer", "number"])
def test_a_call_with_other_inputs_than_the_first_is_refused(second: list[Any]) -> None:
    def add(x: torch.Tensor, y: Any = 0) -> torch.Tensor:
        return x + y

    with pytest.raises(InputError, match="call 2 has to differ from the others in width alone"):
        shapes = {name: {1: torch.export.Dim("width", min=1, max=40)} for name in ("x", "y")}
        problem_of(add, [[X, X], second], dynamic_shapes=shapes)


class Cached(nn.Module):
    """Attention with a cache of keys and values."""

    def forward(self, x: torch.Tensor, cache: Any, scale: float = 1.0) -> torch.Tensor:
        keys, values = (torch.cat([past, x], 1) for past in (cache["kv"] if isinstance(cache, dict) else cache))
        return nn.functional.scaled_dot_product_attention(x, keys, values, scale=scale)


PAST = torch.export.Dim("past", min=1, max=20)


@pytest.mark.parametrize(
    "shapes",
    [
        {"cache_0": {1: PAST}, "cache_1": {1: PAST}},
        {"cache": ({1: PAST}, {1: PAST})},
        {"x": None, "cache": ((None, PAST, None), {0: None, 1: PAST})},
        ({}, ({1: PAST}, {1: PAST}), None),
        {"cache": {"kv": [{1: PAST}, {1: PAST}]}},
    ],
    ids=["flat", "nested", "sequences", "by position", "dictionary"],
)
def test_shapes_of_tensors_in_containers_are_spelled_as_torch_export_does(shapes: Any) -> None:
    x, past = torch.randn(2, 1, 8), torch.randn(2, 6, 8)
    in_dictionary = isinstance(shapes, dict) and isinstance(shapes.get("cache"), dict)
    cache = {"kv": [past, past]} if in_dictionary else (past, past)
    traced = problem_of(Cached(), [x, cache, 0.5], dynamic_shapes=shapes)
    assert [each.places for each in traced.dynamic] == [(("cache_0", 1), ("cache_1", 1))]
    assert (13,) in traced.covered


def test_shapes_that_are_nested_otherwise_are_refused() -> None:
    with pytest.raises(InputError, match="`dynamic_shapes` for 'cache' has to be nested as that is"):
        problem_of(Cached(), [X[:, None], (X[:, None],) * 2], dynamic_shapes={"cache": ({1: PAST},)})


def test_indices_of_a_dimension_that_becomes_too_small_are_named() -> None:
    def row(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[at]

    with pytest.raises(ProblemError, match=r"integers of 'at' go up to 6 at every size: .* give that a `min` of 7"):
        problem_of(row, [X, torch.tensor([0, 6, 2])], dynamic_shapes={"x": {0: BATCH}})


def test_an_input_without_dynamic_dimensions_is_as_it_is() -> None:
    assert problem_of(of(torch.relu), [X], dynamic_shapes={"x": {}}).dynamic == ()


def test_a_kernel_takes_every_size_of_the_range_and_no_other_call() -> None:
    module = Scale()
    won = optimized(module, [ROWS], x=BATCH)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count, rows in enumerate((1, 2, 3, 17, 39, 40), 1):
            x = torch.randn(rows, 8)
            assert torch.equal(won.kernel(x), module(x))
            assert calls_of(won) == count
        for other in (torch.randn(41, 8), torch.randn(4, 1), torch.randn(8), ROWS.double(), torch.randn(8, 6).t()):
            assert torch.equal(won.kernel(other), module(other))
    assert calls_of(won) == 6


def test_a_kernel_is_put_in_only_if_it_is_right_at_the_ends_too() -> None:
    wrong = "def kernel(x, weight):\n    return x * weight + (1 if len(x) == 40 else 1e-6)\n"
    with pytest.raises(InputError, match="differs from its own"):
        kernelswarm.apply(nn.Sequential(Scale()), optimized(Scale(), [ROWS], wrong, x=BATCH), "0")
    model = nn.Sequential(Scale())
    assert kernelswarm.apply(model, optimized(Scale(), [ROWS], x=BATCH), "0").names == ("0",)


def test_attention_whose_three_inputs_share_two_sizes() -> None:
    attention, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(8, 5, 16)
    shapes = {name: {0: BATCH, 1: TOKENS} for name in ("query", "key", "value")}
    traced = problem_of(attention, [x, x, x], dynamic_shapes=shapes)
    assert all(sizes in traced.covered for sizes in ((1, 7), (23, 11), (40, 30)))


def test_inputs_that_share_a_size_have_to_have_the_same() -> None:
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    won = optimized(add, [X, X], COUNTED.replace("x", "x, y") + "    return x + y\n", x=BATCH, y=BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        won.best(torch.randn(3, 16), torch.randn(3, 16))
        won.best(torch.randn(3, 16), torch.randn(1, 16))
        with pytest.raises(RuntimeError, match="must match"):
            won.best(torch.randn(0, 16), torch.randn(3, 16))
    assert won.calls == {"kernel": 1, "operator: other shapes": 2}


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_a_trace_with_dynamic_sizes_can_be_pickled() -> None:
    traced = problem_of(Scale(), [ROWS], dynamic_shapes={"x": {0: BATCH}})
    assert (17,) in pickle.loads(pickle.dumps(traced)).covered


def test_the_first_call_of_another_shape_is_a_warning() -> None:
    won = optimized(Scale(), [ROWS])
    with torch.no_grad():
        with pytest.warns(RuntimeWarning, match=r"x is \(2, 8\).*search with `dynamic_shapes`") as caught:
            won.kernel(ROWS[:2])
        assert caught[0].filename == __file__
        won.kernel(ROWS[:3])
        won.kernel(ROWS.t().contiguous().t())
        won.kernel(ROWS)
    won.kernel(ROWS)
    expected = {"operator: other shapes": 2, "operator: other inputs": 1, "operator: gradients": 1, "kernel": 1}
    assert won.calls == expected


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        (41, 8, r"x is \(41, 8\)\): dimension 0 of 'x' is 41, and `batch` was searched from 1 to 40; .* a wider range"),
        (3, 1, r"x is \(3, 1\)\): searched were `batch` from 1 to 40, .* other dimensions as in `inputs`; add"),
    ],
)
def test_after_a_search_with_a_range_the_warning_names_it(rows: int, columns: int, sentence: str) -> None:
    won = optimized(Scale(), [ROWS], x=BATCH)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match=sentence) as caught:
        won.kernel(torch.randn(rows, columns))
    assert "search with `dynamic_shapes`" not in str(caught[0].message)


def test_the_warning_of_a_model_with_a_kernel_names_the_line_that_calls_the_model() -> None:
    model = nn.Sequential(nn.Sequential(Scale()))
    kernelswarm.apply(model, optimized(Scale(), [ROWS]), "*")
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="search with `dynamic_shapes`") as caught:
        model(ROWS[:2])
    assert caught[0].filename == __file__
    function = optimized(lambda x: x * 2, [ROWS], COUNTED + "    return x * 2\n").best
    with pytest.warns(RuntimeWarning, match="search with `dynamic_shapes`") as caught:
        function(ROWS[:2])
    assert caught[0].filename == __file__
