"""Which settings of a module are the searched one's, whatever holds them, and which changes a call notices."""

import copy
import logging
import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from winning import RIGHT, ROWS, Scale, calls_of, optimized

import kernelswarm
from kernelswarm.api import calls
from kernelswarm.api.searching import problem_of
from kernelswarm.schemas import InputError


@dataclass
class Dimensions:
    width: int = 8
    names: list[str] = field(default_factory=lambda: ["a"])


class Slotted:
    __slots__ = ("__private", "sizes")

    def __init__(self) -> None:
        self.sizes = [1, 2]
        self.__private = [1]

    def append(self) -> None:
        self.__private.append(2)


class Unequal:
    """Nobody may ask whether it is equal to another one."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError("unequal")


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
        self.names = {self.weight: "weight", Unequal(): "unequal"}
        self.logger = logging.getLogger(__name__)

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
    "a list in a private slot": lambda module: module.slotted.append(),
    "a key that cannot be compared": lambda module: module.names.update({Unequal(): module.names.popitem()[1] + "?"}),
    "a parameter among keys": lambda module: module.names.update({module.stages: module.names.pop(module.weight)}),
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


class Configured(Scale):
    """Settings that hold others, numbers that are equal to others of another type, and parts in an order."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = [1]
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


def test_another_logger_of_the_process_changes_nothing() -> None:
    module = Objects()
    result = optimized(module, [ROWS])
    with torch.no_grad():
        result.best(ROWS)
        logging.getLogger(f"{__name__}.new")
        result.best(ROWS)
    assert calls_of(result) == 2
    assert kernelswarm.apply(torch.nn.Sequential(Objects()), result, where="0").names == ("0",)


class Linked:
    def __init__(self, following: "Linked | None" = None) -> None:
        self.following = following


class Raising:
    """Its slot cannot be read."""

    __slots__ = ("field",)


class Computing(Raising):
    __slots__ = ()

    @property
    def field(self) -> Any:
        raise ValueError("computed")


def chained() -> Linked:
    first = Linked()
    for _ in range(1500):
        first = Linked(first)
    return first


@pytest.mark.parametrize("setting", [chained, Computing])
def test_what_nobody_can_look_into_stays_the_module_s_own(setting: Callable[[], Any]) -> None:
    module = Scale()
    module.setting = setting()
    result = optimized(module, [ROWS])
    with torch.no_grad():
        result.best(ROWS)
        result.best(ROWS)
    assert calls_of(result) == 2
    module.setting = setting()
    with torch.no_grad():
        result.best(ROWS)
    assert calls_of(result) == (3 if setting is chained else 2)


def test_a_zero_of_another_sign_is_another_number() -> None:
    module = Scale()
    module.zero = 0.0
    result = optimized(module, [ROWS])
    module.zero = -0.0
    with torch.no_grad():
        result.best(ROWS)
    assert calls_of(result) == 0


def test_so_is_it_as_an_argument() -> None:
    def divided(x: torch.Tensor, by: float) -> torch.Tensor:
        return x / by

    result = optimized(divided, {"x": ROWS, "by": 0.0}, "def kernel(x):\n    return x / 0.0\n")
    assert torch.equal(result.best(ROWS + 2, -0.0), (ROWS + 2) / -0.0)


def test_a_module_that_cannot_be_copied_is_refused_with_the_reason() -> None:
    module = Scale()
    module.lock = threading.Lock()
    result = optimized(module, [ROWS])
    with torch.no_grad():
        result.best(ROWS)
    assert calls_of(result) == 1
    with pytest.raises(InputError, match=r"it cannot be copied to be compared with the kernel: .*lock"):
        kernelswarm.apply(torch.nn.Sequential(module), result, where="0")


@pytest.mark.parametrize("wrapped", [False, True])
def test_arrays_that_each_call_would_read_for_long_are_refused_before_a_search(wrapped: bool) -> None:
    """One of 200 MB took 0.3 s of every call."""
    module, table = Scale(), numpy.zeros(2**20)
    module.table = {"rows": [table]} if wrapped else table  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"'table' of Scale holds 8 MB of NumPy arrays.*register_buffer\('table'"):
        problem_of(module, [ROWS])
    module.table = table[: 2**16]  # type: ignore[attr-defined]
    assert problem_of(module, [ROWS]).problem.source
