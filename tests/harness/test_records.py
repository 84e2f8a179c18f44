"""Configurations reach candidates: as objects of their own class, or of one like it."""

import os
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelswarm.hardware.harness import values
from kernelswarm.hardware.harness.answering import Refused
from kernelswarm.hardware.harness.messages import Open
from kernelswarm.hardware.harness.records import of_own_class
from kernelswarm.hardware.harness.reference_problem import open_reference
from kernelswarm.schemas import ProblemFormat

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


def sent(arguments: list[object]) -> list[object]:
    packed, file = values.pack(arguments)
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
    sent_config = module.Config(module.Size(2, 3))

    (got,) = of_own_class(sent([sent_config]), module)

    assert got == module.Config(module.Size(2, 3), plain=got.plain) and type(got) is module.Config
    assert got.plain.twice() == 6 and got.mode is module.Mode.post


def test_classes_and_functions_of_torch_are_the_same() -> None:
    assert sent([nn.GELU, torch.relu, torch.nn.functional.silu, {"dtype": torch.bfloat16}]) == [
        nn.GELU,
        torch.relu,
        torch.nn.functional.silu,
        {"dtype": torch.bfloat16},
    ]


@pytest.mark.parametrize(("argument", "what"), [("nn.ReLU()", "a ReLU"), ("(lambda x: x)", "a function")])
def test_what_cannot_be_given_is_refused_by_name(
    argument: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    source = f"""
from torch import nn
class Model(nn.Module):
    def __init__(self, activation): super().__init__()
    def forward(self, x): return x
def get_inputs(): return []
def get_init_inputs(): return [{argument}]
"""
    problem = Open(name="odd", format=ProblemFormat.kernelbench, source=source, seed=1)

    with pytest.raises(Refused, match=rf"odd.py: get_init_inputs\(\) returns {what}, which no candidate can be given"):
        open_reference(problem)
