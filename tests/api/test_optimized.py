"""What a search returns to Python: five lines, a kernel that may be called, and names that say where it came from."""

import pickle
from typing import Any, NamedTuple

import msgspec
import pytest
import torch
from winning import RIGHT, ROWS, Scale, calls_of, optimized

import kernelswarm
from kernelswarm.api.optimized import Optimized
from kernelswarm.api.searching import problem_of
from kernelswarm.hardware.sources.from_python import Traced, trace
from kernelswarm.schemas import InputError, Interval, ProblemError, ProblemFormat
from kernelswarm.schemas.problem import Problem
from kernelswarm.sessions.results import Ordinary

DOUBLE = "calls = 0\ndef kernel(x):\n    global calls\n    calls += 1\n    return x * 2\n"


def test_a_result_prints_as_five_lines_with_ordinary_times() -> None:
    outcome = optimized(Scale(), [ROWS])
    double = Interval(median=2.0, low=1.9, high=2.1)
    ordinary = Ordinary(times_ms={"candidate": 0.5, "compile": 1.0}, speedups={"compile": double})
    changes = dict(ordinary=ordinary, times_ms={"candidate": 0.1}, candidates=3, correct=2)
    result = msgspec.structs.replace(outcome.result, **changes)
    assert str(Optimized(result, outcome.traced, outcome.file)).splitlines() == [
        "scale on pool cpu: win",
        "n001 is 2.00x (1.90 to 2.10) as fast as torch.compile",
        "torch.compile 1 ms, kernel 0.5 ms",
        "3 candidates, 2 correct, 0 s; ended: budget",
        "session scale-abcde: kernelswarm show scale-abcde",
    ]


def test_a_result_without_anything_right_prints_as_five_lines_too() -> None:
    outcome = optimized(Scale(), [ROWS], "", win=False)
    lines = repr(outcome).splitlines()
    assert len(lines) == 5 and lines[0] == "scale on pool cpu: no win found" and lines[2] == "nothing was timed"


def test_without_a_win_the_kernel_is_the_operator_and_the_best_one_is_there_when_asked_for() -> None:
    module = Scale()
    lost = optimized(module, [ROWS], win=False)
    assert lost.kernel is module and lost.module is module
    with torch.no_grad():
        assert torch.equal(lost.best(ROWS), module(ROWS))


def test_what_is_changed_in_the_module_is_changed_for_its_kernel() -> None:
    module = Scale()
    won = optimized(module, [ROWS])
    best: torch.nn.Module = won.best  # type: ignore[assignment]
    with torch.no_grad():
        before = calls_of(won)
        assert torch.equal(best(ROWS), module(ROWS))
        assert calls_of(won) == before + 1
        module.eval()
        module.shift = 3.0
        module.weight = torch.nn.Parameter(torch.full_like(module.weight, 2.0))
        assert not best.training
        assert torch.equal(best(ROWS), module(ROWS))
        best.train()
        assert module.training
        assert calls_of(won) == before + 1


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's own, when it reads one back
def test_a_result_that_was_used_is_pickled_as_it_was_found() -> None:
    won = optimized(Scale(), [ROWS])
    with torch.no_grad():
        expected = won.best(ROWS)
        again: Optimized = pickle.loads(pickle.dumps(won))
        assert again.result == won.result and torch.equal(again.best(ROWS), expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (torch.ones(8, device="meta"), "'x' has no numbers"),
        (torch.eye(8).to_sparse(), "'x' is sparse_coo"),
    ],
    ids=["meta", "sparse"],
)
def test_an_input_without_dense_numbers_is_refused(value: torch.Tensor, reason: str) -> None:
    with pytest.raises(ProblemError, match=reason):
        trace(lambda x: x + 1, [value])


def test_a_condition_on_values_is_named() -> None:
    with pytest.raises(ProblemError, match="makes Python numbers or conditions of its tensors' values"):
        trace(lambda x: x + 1 if x.sum() > 0 else x, [ROWS])


def test_where_nothing_was_right_there_is_no_best_and_the_kernel_is_the_operator() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    lost = optimized(double, [ROWS], "", win=False)
    assert lost.kernel is double and torch.equal(lost.module(ROWS), ROWS * 2)
    with pytest.raises(InputError, match="session scale-abcde has no correct kernel"):
        _ = lost.best


def test_a_functions_kernel_takes_its_arguments_and_falls_back() -> None:
    won = optimized(lambda x, factor: x * factor, [ROWS, 2], DOUBLE)
    calls = won._call._kernel.__globals__  # type: ignore[attr-defined]
    assert torch.equal(won.kernel(ROWS, 2), ROWS * 2) and calls["calls"] == 1
    assert torch.equal(won.kernel(x=ROWS, factor=2), ROWS * 2) and calls["calls"] == 2
    assert torch.equal(won.kernel(ROWS, 3), ROWS * 3), "another number than the one that was traced"
    x = ROWS.clone().requires_grad_()
    won.kernel(x, 2).sum().backward()
    assert torch.equal(x.grad, torch.full_like(ROWS, 2)) and calls["calls"] == 2
    assert isinstance(won.module, torch.nn.Module) and torch.equal(won.module(ROWS, 2), ROWS * 2)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_a_named_tuple_stays_one() -> None:
    file = "def kernel(x):\n    return x + 1, x + 2\n"
    won = optimized(lambda x: Pair(x + 1, x + 2), [ROWS], file)
    result = won.kernel(ROWS)
    assert type(result) is Pair and torch.equal(result.right, ROWS + 2)


def test_a_problem_files_kernel_is_what_the_file_defines() -> None:
    source = "import torch\nshapes = {}\ndef inputs(g):\n    return []\ndef reference(x):\n    return x * 2\n"
    problem = Problem(name="double", format=ProblemFormat.function, source=source, sha256="0")
    outcome = optimized(Scale(), [ROWS], DOUBLE)
    won = Optimized(outcome.result, Traced(problem), DOUBLE)
    lost = Optimized(msgspec.structs.replace(outcome.result, win=False), Traced(problem), DOUBLE)
    assert won.kernel.__name__ == "kernel" and lost.kernel.__name__ == "reference"
    for refused in (lambda: won.module, lambda: kernelswarm.apply(Scale(), won)):
        with pytest.raises(InputError, match="searched a problem file"):
            refused()


class HTTPNorm2d(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        (lambda x: x + 1, "test_optimized"),
        (eval("lambda x: x + 1"), "function"),
        (HTTPNorm2d(), "http_norm2d"),
        (torch.nn.RMSNorm(8), "rms_norm"),
        (torch.nn.functional.silu, "silu"),
    ],
)
def test_a_problem_is_named_for_function_file_or_class(operator: Any, name: str) -> None:
    assert trace(operator, [ROWS]).problem.name == name


def test_a_module_that_counts_in_an_attribute_is_refused_and_left_as_it_was() -> None:
    class Counting(torch.nn.Module):
        steps = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return x + self.steps

    module = Counting()
    with pytest.raises(ProblemError, match="counting cannot be traced: a call changes its attribute 'steps'"):
        trace(module, [ROWS])
    assert module.steps == 0 and "steps" not in vars(module)


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_a_weight_that_a_hook_computes_is_refused_with_the_way_out(name: str) -> None:
    hooked = torch.nn.Sequential(getattr(torch.nn.utils, name)(torch.nn.Linear(8, 8))).eval()
    with pytest.raises(ProblemError, match=rf"its attribute 'weight'.*utils\.{name} computes it anew.*remove_{name}"):
        trace(hooked, [ROWS])
    parametrized = torch.nn.Sequential(getattr(torch.nn.utils.parametrizations, name)(torch.nn.Linear(8, 8))).eval()
    for way_out in (parametrized, torch.nn.Sequential(getattr(torch.nn.utils, f"remove_{name}")(hooked[0]))):
        trace(way_out, [ROWS])


def test_a_buffer_that_is_put_in_anew_is_a_write() -> None:
    class Average(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return x - self.mean

    module = Average()
    traced = trace(module, [ROWS])
    assert "copy_(mean" in traced.problem.source.replace("mean, ", "copy_(mean") and torch.equal(
        module.mean, torch.zeros(8)
    )
    file: dict[str, Any] = {}
    exec(traced.problem.source, file)
    held = torch.zeros(8)
    file["reference"](ROWS, held)
    assert torch.allclose(held, 0.1 * ROWS.mean(0))


def test_the_package_lists_its_api() -> None:
    assert dir(kernelswarm) == sorted(kernelswarm.__all__) == list(kernelswarm.__all__)
    assert all(getattr(kernelswarm, name) is not None for name in kernelswarm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = kernelswarm.optimise


def test_the_kernel_of_the_tests_is_what_the_module_computes() -> None:
    """What the tests above rest on."""
    file: dict[str, Any] = {}
    exec(RIGHT, file)
    assert torch.equal(file["kernel"](ROWS, Scale().weight), Scale()(ROWS))


def test_a_class_in_the_place_of_a_module_is_refused_and_a_misspelt_call_is_known() -> None:
    with pytest.raises(InputError, match="RMSNorm is a class: give a module that was made of it"):
        kernelswarm.optimize(torch.nn.RMSNorm, [ROWS])
    with pytest.raises(AttributeError) as caught:
        kernelswarm.optimise  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("optimise", kernelswarm)


def test_lazy_layers_take_their_sizes_from_the_inputs() -> None:
    module = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())
    problem_of(module, [torch.randn(4, 5)])
    assert module[0].in_features == 5 and not module[1].num_batches_tracked and module[1].training
    with pytest.raises(InputError, match="Sequential has lazy layers, and its first call fails: RuntimeError"):
        problem_of(torch.nn.Sequential(torch.nn.LazyConv2d(3, 3)), [torch.randn(4)])
