"""Which calls a kernel stands in for, and what searching does in the user's own process."""

import asyncio
import copy
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from msgspec.structs import replace
from winning import RIGHT, ROWS, Scale, calls_of, optimized

import kernelswarm
from kernelswarm.api import calls
from kernelswarm.api.questions import blocking
from kernelswarm.api.searching import errors_of, problem_of
from kernelswarm.schemas import InputError


class Shifted(Scale):
    """Its settings are an object."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(act="none")
        self.steps = [1]

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x if bias is None else x + bias)


SHIFTED = "def kernel(x, bias, weight):\n    return (x + bias) * weight + 1e-6\n"


@pytest.mark.parametrize("bias", [ROWS[:1].expand(4, -1), ROWS.t().contiguous().t(), ROWS.repeat(1, 2)[:, ::2], ROWS])
def test_inputs_may_lie_in_memory_in_any_way(bias: torch.Tensor) -> None:
    model = torch.nn.Sequential(Shifted())
    assert kernelswarm.apply(model, optimized(model[0], [ROWS, bias], SHIFTED), where="0").names == ("0",)


def test_settings_that_are_objects_are_the_same_where_they_are_the_module_s_own() -> None:
    model = torch.nn.Sequential(Shifted())
    assert kernelswarm.apply(model, optimized(model[0], [ROWS]), where="0").names == ("0",)


def test_a_call_like_the_last_does_not_compare_every_setting_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Shifted()
    result = optimized(module, [ROWS])
    with torch.no_grad():
        result.best(ROWS)
        monkeypatch.setattr(calls, "difference", lambda module, traced: pytest.fail("the whole module was compared"))
        result.best(ROWS)
        assert calls_of(result) == 2


@dataclass
class Dimensions:
    width: int = 8
    names: list[str] = field(default_factory=lambda: ["a"])


class Slotted:
    __slots__ = ("sizes",)

    def __init__(self) -> None:
        self.sizes = [1, 2]


class Objects(Scale):
    """Settings that hold others in every way there is; two modules of this class have nothing of it in common."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(act="none", inner=Dimensions())
        self.config.itself = self.config
        self.slotted = Slotted()
        self.array = numpy.array([1.0, float("nan")])
        self.number = numpy.int64(3)
        self.table = torch.tensor([1.0, 2.0])
        self.kinds, self.queue = {"a", "b"}, deque([1, 2])
        self.activation = partial(torch.nn.functional.gelu, approximate="tanh")
        self.twice = lambda x: x * 2
        self.own = self.identity
        self.stages = torch.nn.ModuleList([torch.nn.Tanh(), torch.nn.Tanh()])
        self.listed = [self.stages[1], self.stages[0], self.weight]
        self.table_of_types: Any = {int | None: list[int], "pattern": torch.float32}

    def identity(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_settings_that_say_the_same_are_the_same_whatever_objects_say_it() -> None:
    result = optimized(Objects(), [ROWS])
    model = torch.nn.Sequential(Objects(), copy.deepcopy(result.traced.operator))
    assert kernelswarm.apply(model, result).names == ("0", "1")
    with torch.no_grad():
        model(ROWS)
        result.best(ROWS)
        assert calls_of(result) == 2 + 3


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch, which reads its own structure
def test_a_pickled_result_knows_its_settings() -> None:
    module = Objects()
    del module.twice  # no lambda can be pickled
    module.function = torch.nn.functional.relu
    result = pickle.loads(pickle.dumps(optimized(module, [ROWS])))
    other = Objects()
    del other.twice
    other.function = torch.nn.functional.relu
    with torch.no_grad():
        result.best(ROWS)
    assert calls_of(result) == 1
    assert kernelswarm.apply(torch.nn.Sequential(other), result, where="0").names == ("0",)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch, which reads its own structure
def test_a_result_for_a_recurrent_module_can_be_pickled() -> None:
    file = "calls = 0\ndef kernel(*tensors):\n    raise NotImplementedError\n"
    result = pickle.loads(pickle.dumps(optimized(torch.nn.LSTM(8, 8), [ROWS], file)))
    assert not calls.difference(torch.nn.LSTM(8, 8), result.traced)


IN_PLACE: dict[str, Callable[[Objects], object]] = {
    "a field": lambda module: setattr(module.config, "act", "relu"),
    "a field of a field": lambda module: setattr(module.config.inner, "width", 9),
    "a field of another type": lambda module: setattr(module.config.inner, "width", 8.0),
    "a list in a field": lambda module: module.config.inner.names.append("b"),
    "a new field": lambda module: setattr(module.config, "more", 1),
    "a slot": lambda module: setattr(module.slotted, "sizes", [1, 3]),
    "a list in a slot": lambda module: module.slotted.sizes.append(1),
    "an array's number": lambda module: module.array.__setitem__(0, 2.0),
    "another number of NumPy": lambda module: setattr(module, "number", numpy.int32(3)),
    "a tensor's number": lambda module: module.table.mul_(2),
    "a set": lambda module: module.kinds.add("c"),
    "a queue": lambda module: module.queue.append(3),
    "a partial function": lambda module: setattr(module, "activation", partial(torch.nn.functional.gelu)),
    "another function": lambda module: setattr(module, "twice", lambda x: x * 3),
    "parts in another order": lambda module: module.listed.reverse(),
    "a parameter that was none": lambda module: setattr(module, "bias", torch.nn.Parameter(torch.ones(8))),
    "a buffer of its own": lambda module: module.register_buffer("more", torch.ones(8)),
    "a part's name": lambda module: setattr(module, "stages", torch.nn.ModuleDict({"x": torch.nn.Tanh()})),
}


@pytest.mark.parametrize("change", IN_PLACE)
@pytest.mark.parametrize("is_own", [True, False])
def test_what_an_object_holds_may_not_change(change: str, is_own: bool) -> None:
    searched, other = Objects(), Objects()
    searched.register_parameter("bias", None)
    other.register_parameter("bias", None)
    result = optimized(searched, [ROWS])
    module = searched if is_own else other
    model = torch.nn.Sequential(module)
    kernelswarm.apply(model, result, where="0")
    before = calls_of(result)
    with torch.no_grad():
        model(ROWS)
        IN_PLACE[change](module)
        model(ROWS)
        model(ROWS)
    assert calls_of(result) == before + 1
    with pytest.raises(InputError, match="no submodule"):
        changed = torch.nn.Sequential(Objects())
        changed[0].register_parameter("bias", None)
        IN_PLACE[change](changed[0])
        kernelswarm.apply(changed, result, where="0")


def test_a_parameter_that_had_two_names_and_is_two_now_is_noticed() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Scale(), Scale()
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    kernel = RIGHT.replace("x * weight + 1e-6", "(x * weight + 1e-6) * weight + 1e-6")
    module = Tied()
    fast = optimized(module, [ROWS], kernel).module
    with torch.no_grad():
        assert torch.equal(fast(ROWS), module(ROWS))
        module.second.weight = torch.nn.Parameter(torch.full((8,), 5.0))
        assert torch.equal(fast(ROWS), module(ROWS))


def test_a_tensor_that_is_no_buffer_may_not_be_written_by_a_call_and_is_as_it_was() -> None:
    class Caching(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache = torch.zeros(4, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache[:2] = x[:2]
            return x * self.cache

    module = Caching()
    with pytest.raises(kernelswarm.ProblemError, match="a call changes its attribute 'cache'"):
        problem_of(module, [ROWS])
    assert torch.equal(module.cache, torch.zeros(4, 8))


class Configured(Shifted):
    """Settings that hold others, numbers that are equal to others of another type, and parts in an order."""

    def __init__(self) -> None:
        super().__init__()
        self.nested = {"rope": {"factor": 2.0}, "sizes": [1, [2, 3]]}
        self.ordered = OrderedDict(a=1, b=2)
        self.pair = ({"k": 1}, 2)
        self.count, self.flag = 2, True
        self.parts = torch.nn.ModuleDict({"a": torch.nn.Tanh(), "b": torch.nn.Sigmoid()})


CHANGES: dict[str, Callable[[Configured], object]] = {
    "appended": lambda module: module.steps.append(2),
    "in a dictionary of a dictionary": lambda module: module.nested["rope"].update(factor=3.0),  # type: ignore[union-attr]
    "in a list of a list": lambda module: module.nested["sizes"][1].append(4),  # type: ignore[index]
    "in an ordered dictionary": lambda module: module.ordered.update(a=5),
    "in a tuple's dictionary": lambda module: module.pair[0].update(k=2),
    "an equal number of another type": lambda module: setattr(module, "count", 2.0),
    "a truth as a number": lambda module: setattr(module, "flag", 1),
    "the order of keys": lambda module: module.ordered.move_to_end("a"),
    "the order of parts": lambda module: module.parts.update({"a": module.parts.pop("a")}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_own", [True, False])
def test_a_setting_that_changes_is_noticed_whatever_holds_it(change: str, is_own: bool) -> None:
    searched, other = Configured(), Configured()
    other.config = searched.config
    module = searched if is_own else other
    model = torch.nn.Sequential(module)
    result = optimized(searched, [ROWS])
    kernelswarm.apply(model, result, where="0")
    before = calls_of(result)
    with torch.no_grad():
        model(ROWS)
        CHANGES[change](module)
        model(ROWS)
    assert calls_of(result) == before + 1


def test_tracing_sees_the_module_itself() -> None:
    model = torch.nn.Sequential(Scale(), torch.nn.Tanh())
    kernelswarm.apply(model, optimized(Scale(), [ROWS]), where="0")
    traced = torch.jit.trace(model, ROWS)
    assert torch.equal(traced(ROWS), model(ROWS))


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else -x


def test_what_cannot_be_traced_is_named_by_file_and_line() -> None:
    place = rf"in line \d+ of {re.escape(__file__)} \(`return x \* 2 if x.sum\(\) > 0 else -x`\)"
    with pytest.raises(kernelswarm.ProblemError, match=place):
        problem_of(Branches(), [ROWS])


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float = 2.0) -> torch.Tensor:
        return x * scale if mask is None else x * mask


MASKED = "calls = 0\ndef kernel(x):\n    global calls\n    calls += 1\n    return x * 2.0\n"


@pytest.mark.parametrize("inputs", [[ROWS], [ROWS, None], {"x": ROWS, "scale": 2.0}])
def test_none_is_an_argument_and_defaults_may_be_given_or_left_out(inputs: Any) -> None:
    result = optimized(Masked(), inputs, MASKED)
    for call in (lambda: result.best(ROWS), lambda: result.best(ROWS, None), lambda: result.best(ROWS, scale=2.0)):
        assert torch.equal(call(), ROWS * 2)
    assert calls_of(result) == 3
    assert torch.equal(result.best(ROWS, ROWS), ROWS * ROWS) and torch.equal(result.best(ROWS, scale=3.0), ROWS * 3)
    assert calls_of(result) == 3


def test_errors_name_arguments_of_python_and_stand_alone() -> None:
    async def fail() -> None:
        raise kernelswarm.ProblemError("x.py: give it more (--minutes 2), or --max-tokens; see --help")

    with pytest.raises(kernelswarm.InputError) as caught:
        blocking(fail())
    assert str(caught.value) == "x.py: give it more (minutes=2), or max_tokens; see --help"
    assert caught.value.__context__ is None


class Uncertain(torch.nn.Module):
    """In training mode it draws random numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        random.random()
        return torch.nn.functional.dropout(x, 0.5, self.training) + torch.rand(1) * 0


@pytest.mark.parametrize("fails", [False, True])
def test_random_numbers_stay_the_callers_own(fails: bool) -> None:
    before, python = torch.get_rng_state(), random.getstate()
    with pytest.raises(InputError) if fails else nullcontext():
        problem_of(torch.nn.Sequential(Uncertain().eval(), Branches() if fails else Masked()), [ROWS])
    assert torch.equal(torch.get_rng_state(), before) and random.getstate() == python


def test_a_search_draws_none_of_the_callers_random_numbers() -> None:
    async def draw() -> None:
        random.random(), numpy.random.rand(), torch.rand(1)

    before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    blocking(draw())
    assert before == (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


def test_importing_draws_none_either() -> None:
    lines = "import random, kernelswarm", "before = random.getstate()", "kernelswarm.optimize, kernelswarm.apply"
    program = "; ".join((*lines, "assert random.getstate() == before"))
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


class Watching(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


AROUND: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda model: torch.vmap(model)(torch.stack([ROWS, ROWS + 1])),
    "jvp": lambda model: torch.func.jvp(model, (ROWS,), (ROWS,)),
    "autocast": lambda model: _within(torch.autocast("cpu", torch.bfloat16), model),
    "a dispatch mode": lambda model: _within(Watching(), model),
    "a device": lambda model: _within(torch.device("cpu"), model),
}


def _within(context: Any, model: Any) -> torch.Tensor:
    with context:
        return model(ROWS)


@pytest.mark.parametrize("around", AROUND)
def test_transforms_and_modes_see_the_module_itself(around: str) -> None:
    class Multiplied(Scale):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.diag(self.weight) + self.shift

    model, own = torch.nn.Sequential(Multiplied()), Multiplied()
    result = optimized(Multiplied(), [ROWS])
    kernelswarm.apply(model, result, where="0")
    before = calls_of(result)
    with torch.no_grad():
        torch.testing.assert_close(AROUND[around](model), AROUND[around](own), rtol=0, atol=0)
        assert calls_of(result) == before
        model(ROWS)
    assert calls_of(result) == before + 1


def test_errors_name_what_the_caller_wrote() -> None:
    traced = problem_of(Masked(), [ROWS])
    with pytest.raises(kernelswarm.ProblemError) as caught, errors_of(traced):
        raise kernelswarm.ProblemError(f"{traced.problem.name}.py is not deterministic: the output differs")
    assert re.fullmatch(rf"Masked \({re.escape(__file__)}:\d+\) is not deterministic: .*", str(caught.value))
    function = problem_of(lambda x: x * 2, [ROWS])
    lambda_ = rf"^<lambda> \({re.escape(__file__)}:\d+\) decides nothing"
    with pytest.raises(kernelswarm.ProblemError, match=lambda_), errors_of(function):
        raise kernelswarm.ProblemError(f"{function.problem.name}.py decides nothing")


@pytest.mark.parametrize("has_result", [True, False])
def test_an_interrupt_reaches_the_thread_of_a_notebook(has_result: bool) -> None:
    async def work() -> int:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not has_result:
                raise
        return 3

    async def notebook() -> int:
        return blocking(work())

    loop = asyncio.new_event_loop()  # as a notebook's, which has no handler of its own for the signal
    try:
        with nullcontext() if has_result else pytest.raises(KeyboardInterrupt):
            assert loop.run_until_complete(notebook()) == 3
    finally:
        loop.close()


def test_an_index_out_of_range_has_the_words_of_the_module() -> None:
    class Coded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.one_hot(x, 4) + 1

    lines = (
        "import torch",
        "def kernel(x):",
        "    return torch.eye(4, dtype=x.dtype).gather(0, x[:, None].expand(-1, 4)) + 1",
    )
    kernel = "\n".join(lines)
    codes = torch.tensor([0, 1, 2])
    for operator in (Coded(), Coded().forward):
        best = optimized(operator, [codes], kernel).best
        with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
            best(codes + 9)


def test_an_interrupt_while_others_are_waited_for_returns_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    won = optimized(Scale(), [ROWS], "")

    async def none() -> Any:
        for event in ():
            yield event

    @asynccontextmanager
    async def waiting(*_: Any, **__: Any) -> Any:
        yield SimpleNamespace(notes=(), events=none, graph=None, result=lambda: replace(won.result, best=""))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        await asyncio.sleep(60)

    monkeypatch.setattr("kernelswarm.api.searching.searching", waiting)
    assert kernelswarm.optimize(Scale(), [ROWS]).session == won.session
