"""Putting a winner into a model and taking it out again: what changes, what does not, and what is refused."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from winning import RIGHT, ROWS, Scale, calls_of, optimized

import kernelswarm
from kernelswarm.api.optimized import Optimized
from kernelswarm.schemas import InputError

WRONG = RIGHT.replace("1e-6", "1e-2")


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = Scale()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(x))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
        self.norm = Scale(shift=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


@pytest.fixture
def won() -> Optimized:
    return optimized(Scale(), [ROWS])


def test_matching_submodules_compute_with_the_kernel_and_the_rest_as_before(won: Optimized) -> None:
    model = Model()
    expected = model(ROWS)
    applied = kernelswarm.apply(model, won, where="layers.*.norm")
    assert applied.names == ("layers.0.norm", "layers.1.norm") and not applied.skipped
    before = calls_of(won)
    with torch.no_grad():
        assert torch.equal(model(ROWS), expected)
    assert calls_of(won) == before + 2


class Named(Scale):
    def forward(self, x: torch.Tensor, *, factor: torch.Tensor | None = None) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x if factor is None else x * factor)


def test_an_argument_that_is_taken_by_name_alone_is_one_of_the_kernel_s() -> None:
    kernel = RIGHT.replace("kernel(x, weight)", "kernel(x, factor, weight)").replace(
        "x * weight", "x * factor * weight"
    )
    won = optimized(Named(), {"x": ROWS, "factor": ROWS + 2}, kernel)
    model = torch.nn.Sequential(Named())
    assert kernelswarm.apply(model, won, where="0").names == ("0",)
    with torch.no_grad():
        torch.testing.assert_close(model[0](ROWS, factor=ROWS + 2), Named()(ROWS, factor=ROWS + 2))
        before = calls_of(won)
        torch.testing.assert_close(won.best(ROWS, factor=ROWS), Named()(ROWS, factor=ROWS))
        assert calls_of(won) == before + 1
        torch.testing.assert_close(model[0](ROWS), Named()(ROWS))


def test_what_stands_behind_an_argument_that_is_left_out_is_itself() -> None:
    class Optional(Scale):
        def forward(self, x: torch.Tensor, less: Any = None, more: Any = None) -> torch.Tensor:  # type: ignore[override]
            x = x if less is None else x - less
            return super().forward(x if more is None else x + more)

    kernel = RIGHT.replace("kernel(x, weight)", "kernel(x, more, weight)").replace("x * weight", "(x + more) * weight")
    won = optimized(Optional(), {"x": ROWS, "more": ROWS + 2}, kernel)
    before = calls_of(won)
    with torch.no_grad():
        torch.testing.assert_close(won.best(ROWS, more=ROWS), Optional()(ROWS, more=ROWS))
    assert calls_of(won) == before + 1
    assert kernelswarm.apply(torch.nn.Sequential(Optional()), won, where="0").names == ("0",)


class Composed(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.nn.Identity()


def test_parts_of_what_is_replaced_are_not_skipped() -> None:
    applied = kernelswarm.apply(torch.nn.Sequential(Composed()), optimized(Composed(), [ROWS]), where="*")
    assert applied.names == ("0",) and applied.skipped.keys() == {""}


class Stretched(Scale):
    def __init__(self) -> None:
        super().__init__()
        self.factors = torch.rand(8) + 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factors


def test_a_module_with_a_tensor_that_is_no_buffer_is_like_itself() -> None:
    module = Stretched()
    source = "def kernel(x, weight, factors):\n    return x * factors\n"
    won = optimized(module, [ROWS], source)
    with kernelswarm.apply(module, won, where="") as applied, torch.no_grad():
        assert applied.names == ("",)
        assert torch.equal(module(ROWS), ROWS * module.factors)
    with pytest.raises(InputError, match="its attribute 'factors' is another one"):
        kernelswarm.apply(Stretched(), won, where="")


def test_taking_it_out_restores_every_class(won: Optimized) -> None:
    model = Model()
    with kernelswarm.apply(model, won, where="layers.*.norm"):
        assert type(model.layers[0].norm) is not Scale and isinstance(model.layers[0].norm, Scale)
    assert type(model.layers[0].norm) is type(model.layers[1].norm) is Scale
    before = calls_of(won)
    with torch.no_grad():
        model(ROWS)
    assert calls_of(won) == before


def test_parameters_stay_where_they_are_and_training_goes_on(won: Optimized) -> None:
    model = Model()
    keys, weight = list(model.state_dict()), model.layers[0].norm.weight
    kernelswarm.apply(model, won, where="layers.*.norm")
    assert list(model.state_dict()) == keys and model.layers[0].norm.weight is weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(ROWS).square().mean().backward()
    assert weight.grad is not None and weight.grad.abs().sum() > 0
    optimizer.step()
    with torch.no_grad():
        assert torch.equal(model.layers[0].norm(ROWS), ROWS * weight + 1e-6)


def test_calls_with_gradients_are_the_modules_own(won: Optimized) -> None:
    module = won.module
    before = calls_of(won)
    module(ROWS).sum().backward()
    assert calls_of(won) == before
    assert torch.equal(module.weight.grad, ROWS.sum(0))


@pytest.mark.filterwarnings("ignore:.*computes calls itself:RuntimeWarning")
@pytest.mark.parametrize(
    "x",
    [ROWS[:2], ROWS.double(), ROWS.half(), ROWS.reshape(2, 2, 8)],
    ids=["another shape", "another precision", "a lower precision", "another rank"],
)
def test_other_calls_are_the_modules_own(won: Optimized, x: torch.Tensor) -> None:
    module, before = won.module, calls_of(won)
    with torch.no_grad():
        assert torch.equal(module(x), Scale()(x))
    assert calls_of(won) == before


def test_arguments_by_name_are_the_same_call(won: Optimized) -> None:
    before = calls_of(won)
    with torch.no_grad():
        assert torch.equal(won.module(x=ROWS), Scale()(ROWS))
    assert calls_of(won) == before + 1


def test_a_changed_setting_is_noticed(won: Optimized) -> None:
    module = won.module
    module.shift = 0.5
    before = calls_of(won)
    with torch.no_grad():
        assert torch.equal(module(ROWS), ROWS * module.weight + 0.5)
    assert calls_of(won) == before


def test_weights_are_live(won: Optimized) -> None:
    module = won.module
    with torch.no_grad():
        won.traced.operator.weight.fill_(3.0)  # type: ignore[union-attr]
        assert torch.equal(module(ROWS), ROWS * 3.0 + 1e-6)
        module.load_state_dict({"weight": torch.full((8,), 4.0)})
        assert torch.equal(won.traced.operator(ROWS), ROWS * 4.0 + 1e-6)  # type: ignore[misc]
    assert type(won.traced.operator) is Scale


def test_evaluation_mode_does_not_matter_where_it_changes_nothing(won: Optimized) -> None:
    model = Model().eval()
    assert kernelswarm.apply(model, won, where="layers.*.norm").names == ("layers.0.norm", "layers.1.norm")


def test_a_copy_keeps_the_kernel_and_its_own_weights(won: Optimized) -> None:
    model = Model()
    kernelswarm.apply(model, won, where="layers.*.norm")
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.layers[0].norm.weight.fill_(5.0)
        before = calls_of(won)
        assert torch.equal(copied.layers[0].norm(ROWS), ROWS * 5.0 + 1e-6)
        assert calls_of(won) == before + 1
        assert torch.equal(model.layers[0].norm(ROWS), Scale()(ROWS))


def test_a_pickled_model_is_the_original_one(won: Optimized) -> None:
    model = Model()
    kernelswarm.apply(model, won, where="layers.*.norm")
    read = pickle.loads(pickle.dumps(model))
    assert type(read.layers[0].norm) is Scale and type(model.layers[0].norm) is not Scale
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    Model().load_state_dict(torch.load(file))


def test_hooks_of_the_module_run_and_hooks_inside_it_are_not_passed_over() -> None:
    sequential = torch.nn.Sequential(Scale(), torch.nn.Tanh())
    file = RIGHT.replace("x * weight + 1e-6", "(x * weight + 1e-6).tanh()")
    won = optimized(sequential, [ROWS], file)
    module, seen = won.module, []
    module.register_forward_hook(lambda *_: seen.append("outside"))
    with torch.no_grad():
        module(ROWS)
        assert (calls_of(won), seen) == (1, ["outside"])
        module[0].register_forward_hook(lambda *_: seen.append("inside"))
        module(ROWS)
    assert (calls_of(won), seen) == (1, ["outside", "inside", "outside"])


@pytest.fixture
def scaled_tanh() -> Optimized:
    file = RIGHT.replace("x * weight + 1e-6", "(x * weight + 1e-6).tanh()")
    return optimized(torch.nn.Sequential(Scale(), torch.nn.Tanh()), [ROWS], file)


def test_a_part_whose_forward_is_replaced_is_called(scaled_tanh: Optimized) -> None:
    module = scaled_tanh.module
    module[0].forward = lambda x: x * 5
    with torch.no_grad():
        assert torch.equal(module(ROWS), (ROWS * 5).tanh())
    assert calls_of(scaled_tanh) == 0


def test_a_class_whose_forward_is_replaced_is_called(scaled_tanh: Optimized, monkeypatch: pytest.MonkeyPatch) -> None:
    module = scaled_tanh.module
    monkeypatch.setattr(Scale, "forward", lambda self, x: x * 5)
    with torch.no_grad():
        assert torch.equal(module(ROWS), (ROWS * 5).tanh())
    assert calls_of(scaled_tanh) == 0


def test_hooks_on_all_modules_see_every_part(scaled_tanh: Optimized) -> None:
    seen: list[str] = []
    module = scaled_tanh.module
    handle = torch.nn.modules.module.register_module_forward_hook(lambda part, *_: seen.append(type(part).__name__))
    try:
        with torch.no_grad():
            module(ROWS)
    finally:
        handle.remove()
    assert {"Scale", "Tanh"} <= set(seen) and calls_of(scaled_tanh) == 0


@pytest.mark.filterwarnings("ignore:.*computes calls itself:RuntimeWarning")
def test_results_lie_in_memory_as_the_modules_own(won: Optimized) -> None:
    module, turned = Scale(), ROWS.t().contiguous().t()
    model = torch.nn.Sequential(module)
    kernelswarm.apply(model, won, where="0")
    before = calls_of(won)
    with torch.no_grad():
        assert model(turned).stride() == Scale()(turned).stride()
    assert calls_of(won) == before


REFUSED = {
    "another class": (torch.nn.Sequential(torch.nn.Linear(8, 8)), "0", "it is a Linear, not a Scale"),
    "another width": (torch.nn.Sequential(Scale(4)), "0", r"parameter 'weight' is torch.float32 \(4,\)"),
    "another precision": (torch.nn.Sequential(Scale().double()), "0", "torch.float64"),
    "another attribute": (torch.nn.Sequential(Scale(shift=1e-3)), "0", "its attribute 'shift' is another one"),
    "no such name": (torch.nn.Sequential(Scale()), "layers.*", r"matches 'layers.\*'; the model has 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_changed(won: Optimized, case: str) -> None:
    model, where, reason = REFUSED[case]
    with pytest.raises(InputError, match=reason):
        kernelswarm.apply(model, won, where=where)
    assert not any(hasattr(type(module), "kernelswarm_original") for module in model.modules())


def test_a_pattern_that_matches_everything_says_why_the_likeliest_part_does_not_fit(won: Optimized) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Scale(shift=1e-3))
    with pytest.raises(InputError, match=r"searched: '1': its attribute 'shift' is another one"):
        kernelswarm.apply(model, won)
    with pytest.raises(InputError, match=r"searched: the model itself: it is a Sequential, not a Scale"):
        kernelswarm.apply(torch.nn.Sequential(torch.nn.Tanh()), won)


def test_what_matches_and_does_not_fit_is_skipped_and_named(won: Optimized) -> None:
    applied = kernelswarm.apply(Model(), won, where="*norm")
    assert applied.names == ("layers.0.norm", "layers.1.norm")
    assert applied.skipped == {"norm": "its attribute 'shift' is another one"}


def test_another_mode_is_named() -> None:
    norm = torch.nn.BatchNorm1d(8)
    won = optimized(norm, [ROWS], "def kernel(*tensors): ...\n")
    with pytest.raises(InputError, match=r"itself: it is in evaluation mode, and was searched in training mode"):
        kernelswarm.apply(copy.deepcopy(norm).eval(), won)
    block = torch.nn.Sequential(norm).eval()
    won = optimized(block, [ROWS], "def kernel(*tensors): ...\n")
    block[0].train()
    with pytest.raises(InputError, match=r"a part of it is in training mode, and was searched in evaluation mode"):
        kernelswarm.apply(block, won)


def test_a_kernel_that_computes_something_else_here_is_refused() -> None:
    with pytest.raises(InputError, match=r"what the kernel leaves differs from its own by 0\.0"):
        kernelswarm.apply(Model(), optimized(Scale(), [ROWS], WRONG), where="layers.*.norm")


def test_it_is_not_put_in_twice(won: Optimized) -> None:
    model = Model()
    kernelswarm.apply(model, won, where="layers.*.norm")
    with pytest.raises(InputError, match="a kernel computes for it already"):
        kernelswarm.apply(model, won, where="layers.*.norm")


def test_buffers_that_a_call_writes_are_the_modules_own() -> None:
    class Count(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return x + self.steps

    file = "calls = 0\ndef kernel(x, steps):\n    global calls\n    calls += 1\n    steps += 1\n    return x + steps\n"
    module = Count()
    won = optimized(module, [ROWS], file)
    assert module.steps == 0, "tracing leaves no trace"
    fast = won.module
    assert torch.equal(fast(ROWS), ROWS + 1) and torch.equal(module(ROWS), ROWS + 2)
    assert torch.equal(fast(ROWS), ROWS + 3) and calls_of(won) == 2
    applied = kernelswarm.apply(torch.nn.Sequential(module), won)
    assert applied.names == ("0",) and module.steps == 3, "checking leaves no trace"


def test_a_function_has_no_submodules_to_go_into() -> None:
    won = optimized(lambda x: x * 2, [ROWS], "def kernel(x):\n    return x * 2\n")
    with pytest.raises(InputError, match="a function was searched, not a module"):
        kernelswarm.apply(Model(), won)


def test_without_a_win_nothing_is_put_in_unless_asked() -> None:
    lost = optimized(Scale(), [ROWS], win=False)
    with pytest.raises(
        InputError, match=r"has no win to put into a model: no win found: 0\.97x of eager; with best=True"
    ):
        kernelswarm.apply(Model(), lost)
    assert kernelswarm.apply(Model(), lost, where="layers.*.norm", best=True).names


@pytest.mark.parametrize("kind", [torch.nn.LayerNorm, torch.nn.RMSNorm])
def test_torchs_own_modules(kind: type) -> None:
    names = "x, weight, bias" if kind is torch.nn.LayerNorm else "x, weight"
    body = (
        "torch.nn.functional.layer_norm(x, (8,), weight, bias, 1e-5)"
        if kind is torch.nn.LayerNorm
        else "torch.nn.functional.rms_norm(x, (8,), weight, None)"
    )
    won = optimized(kind(8), [ROWS], f"import torch\ncalls = 0\ndef kernel({names}):\n    return {body}\n")
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) if kind is torch.nn.LayerNorm else None
    assert kernelswarm.apply(model or torch.nn.Sequential(kind(8)), won).names
    with torch.no_grad():
        assert torch.equal(won.module(ROWS), won.traced.operator(ROWS))  # type: ignore[misc]


def test_what_is_no_result_is_named() -> None:
    with pytest.raises(InputError, match=r"3 is no result of kernelswarm.optimize"):
        kernelswarm.apply(torch.nn.LayerNorm(8), 3)
