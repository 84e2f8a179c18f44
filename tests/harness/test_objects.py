"""Objects reach candidates: configurations of their own class or of one like it, and what Python and torch make."""

import decimal
import enum
import functools
import os
import types
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_outputs
import numpy as np
import pytest
import torch
from torch import nn

from kernelswarm.hardware.harness.calls.answering import Refused
from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.harness.tensors import values
from kernelswarm.hardware.harness.tensors.likeness import same
from kernelswarm.hardware.processes import objects
from kernelswarm.hardware.processes.arguments import Values, specs_of
from kernelswarm.schemas import ProblemFormat, decode, encode

CONFIGURATION = """
import enum
from dataclasses import dataclass, field
from typing import NamedTuple

class Mode(enum.Enum):
    pre = 1
    post = 2

class Size(NamedTuple):
    rows: int
    cols: int

@dataclass(frozen=True)
class Inner:
    eps: float = 1e-5

class Plain:
    def __init__(self, width): self.width = width
    def twice(self): return 2 * self.width

@dataclass
class Config:
    size: Size
    mode: Mode = Mode.post
    inner: Inner = field(default_factory=Inner)
    plain: Plain = field(default_factory=lambda: Plain(3))
    names: tuple = ("a", None, True)
"""


@pytest.fixture
def module() -> types.ModuleType:
    module = types.ModuleType("configuration")
    exec(CONFIGURATION, module.__dict__)
    return module


@pytest.fixture(autouse=True)
def no_own_classes() -> Iterator[None]:
    """A process without a candidate's file, as this one was."""
    objects.use_classes_of(types.ModuleType("none"))
    yield
    objects.use_classes_of(types.ModuleType("none"))


def sent(arguments: list[Any]) -> list[Any]:
    packed, file = values.pack(arguments)
    packed = decode(encode(packed), Values)
    try:
        return values.unpack(packed, values.MappedFile(file, packed.size))
    finally:
        os.close(file)


def test_a_configuration_keeps_its_attributes_without_its_class(module: types.ModuleType) -> None:
    (got,) = sent([module.Config(module.Size(2, 3))])

    assert type(got).__name__ == "Config" and type(got) is not module.Config
    assert (got.size.rows, got.size, got.inner.eps, got.plain.width) == (2, (2, 3), 1e-5, 3)
    assert (got.mode.name, got.mode.value, got.names) == ("post", 2, ("a", None, True))


def test_the_candidates_own_class_takes_its_place(module: types.ModuleType) -> None:
    config = module.Config(module.Size(2, 3))
    unknown = sent([config])
    objects.use_classes_of(module)

    for got in (*sent([config]), *objects.of_own_classes(unknown)):
        assert got == module.Config(module.Size(2, 3), plain=got.plain) and type(got) is module.Config
        assert got.plain.twice() == 6 and got.mode is module.Mode.post


@pytest.mark.parametrize(
    "argument",
    [
        float("-inf"),
        1j,
        b"bytes",
        {1: "a", (2, 3): "b"},
        {1, 2},
        range(3),
        slice(1, None),
        OrderedDict(a=1),
        defaultdict(int, a=1),
        decimal.Decimal("1.5"),
        functools.partial(torch.nn.functional.gelu, approximate="tanh"),
        np.float64(2.5),
        torch.device("cpu"),
        torch.channels_last,
        torch.Size([1, 2]),
        int,
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_what_python_and_torch_make_stays_what_it_is(argument: Any) -> None:
    (got,) = sent([argument])

    assert type(got) is type(argument) and repr(got) == repr(argument)


def test_a_module_comes_with_its_weights_as_parameters() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())

    (got,) = sent([module])

    assert isinstance(got[0].weight, nn.Parameter) and torch.equal(got[0].weight, module[0].weight)
    assert got[0].weight.data_ptr() != module[0].weight.data_ptr()


def test_tensors_inside_objects_are_counted_changed_and_filled_again(module: types.ModuleType) -> None:
    held, other = torch.ones(3), torch.zeros(2)
    inputs = [module.Plain(held), OrderedDict(a=[other], b=1), {"plain": held}]
    packed, file = values.pack(inputs)
    mapped = values.MappedFile(file, packed.size)
    got = values.unpack(packed, mapped)
    os.close(file)

    assert [tuple(spec.shape) for spec in specs_of(packed.items)] == [(3,), (2,), (3,)]
    assert [tuple(tensor.shape) for tensor in values.tensors_of(got)] == [(3,), (2,), (3,)]
    for tensor in values.tensors_of(got):
        tensor.fill_(7)
    again = values.refill(got, packed, mapped)
    assert torch.equal(again[0].width, held) and again[0].width.data_ptr() == got[0].width.data_ptr()
    doubled = values.mapped(inputs, lambda tensor: tensor + 1)
    assert float(doubled[0].width[0]) == 2 and float(inputs[0].width[0]) == 1
    assert same(inputs, values.mapped(inputs, torch.clone)) and not same(inputs, doubled)


def test_a_result_that_is_a_dictionary_and_a_dataclass_has_every_tensor_once() -> None:
    last, first = torch.ones(3), torch.zeros(2)
    output = model_outputs.Output(last_hidden_state=last, hidden_states=(first, last))

    assert [id(leaf) for leaf in values.leaves(output)] == [id(last), id(first), id(last)]
    (got,) = sent([output])
    assert [tuple(leaf.shape) for leaf in values.leaves(got)] == [(3,), (2,), (3,)]
    assert torch.equal(got["hidden_states"][1], last) and got.loss is None


def test_an_object_may_hold_itself(module: types.ModuleType) -> None:
    plain = module.Plain(1)
    plain.width = plain

    (got,) = sent([plain])

    assert got.width is got


def test_a_flag_without_a_name_and_an_enumeration_of_texts() -> None:
    class Way(enum.Flag):
        a = 1
        b = 2

    class Word(str, enum.Enum):  # noqa: UP042 as people write it
        a = "x"

    way, word = sent([Way.a | Way.b, Word.a])

    assert way.value == 3 and word == "x" and word.name == "a"


def test_classes_and_functions_of_torch_are_the_same() -> None:
    assert sent([nn.GELU, torch.relu, torch.nn.functional.silu, {"dtype": torch.bfloat16}]) == [
        nn.GELU,
        torch.relu,
        torch.nn.functional.silu,
        {"dtype": torch.bfloat16},
    ]


@pytest.mark.parametrize(
    ("argument", "what"),
    [
        ("(lambda x: x)", "a function"),
        ("act", "a function"),
        ("threading.Lock()", r"a lock \(.*\)"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(
    argument: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    source = f"""
import threading
from torch import nn
def act(x): return x
class Model(nn.Module):
    def __init__(self, activation): super().__init__()
    def forward(self, x): return x
def get_inputs(): return []
def get_init_inputs(): return [{argument}]
"""
    problem = Open(name="odd", format=ProblemFormat.kernelbench, source=source, seed=1)

    with pytest.raises(Refused, match=rf"odd.py: get_init_inputs\(\) returns {what}, which no candidate can be given"):
        open_reference(problem)
