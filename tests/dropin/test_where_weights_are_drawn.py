"""Weights are drawn on the device, where a module can be made there and is what it would be in main memory."""

import types
from typing import Any

import numpy
import pytest
import torch

from kernelswarm.hardware.dropin.constructor import made_on, without_data

DEVICE = torch.device("meta")
"""Stands for an accelerator: like one, it is not main memory."""


class Keeps(torch.nn.Linear):
    """Has a tensor that ``to`` does not move."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.places = {"mask": [torch.ones(2)]}


class Reads(torch.nn.Linear):
    """Looks at a number that it drew: that fails on this device."""

    def __init__(self) -> None:
        super().__init__(2, int(torch.rand(1).item()) + 2)


class Takes(torch.nn.Linear):
    """Has a buffer that it was given."""

    def __init__(self, given: torch.Tensor) -> None:
        super().__init__(2, 2)
        self.register_buffer("given", given)


def _seed() -> None:
    torch.manual_seed(7)


@pytest.mark.parametrize("make", [lambda: torch.nn.LSTM(3, 4), lambda: torch.nn.BatchNorm1d(3)], ids=["lstm", "norm"])
def test_weights_are_drawn_on_the_device(make: Any) -> None:
    module, place = made_on(DEVICE, make, ([], {}), _seed)
    assert place == DEVICE
    assert {tensor.device for tensor in module.state_dict().values()} == {DEVICE}


@pytest.mark.parametrize(("make", "arguments"), [(Keeps, []), (Reads, []), (Takes, [torch.ones(2)])])
def test_some_modules_are_made_in_main_memory(make: Any, arguments: list[Any]) -> None:
    module, place = made_on(DEVICE, make, (arguments, {}), _seed)
    assert place.type == "cpu"
    assert {tensor.device.type for tensor in module.state_dict().values()} == {"cpu"}
    _seed()
    torch.testing.assert_close(module.state_dict(), make(*arguments).state_dict(), rtol=0, atol=0)


def test_a_constructor_that_fails_everywhere_raises_its_own_error() -> None:
    with pytest.raises(TypeError, match="in_features"):
        made_on(DEVICE, torch.nn.Linear, ([], {}), _seed)


class Elsewhere(torch.nn.Linear):
    """Keeps a tensor where no module has it."""

    kept: list[Any] = []

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.kept.append(types.SimpleNamespace(table=torch.arange(4)))


class Indexed(torch.nn.Linear):
    """Looks numbers up in a table that is not made by torch: by indices without numbers that gives anything."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.order = torch.from_numpy(numpy.arange(8))[torch.arange(4)]


class Buffered(torch.nn.Linear):
    """Has a buffer of its own, on whatever device."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.register_buffer("table", torch.ones(2, device="cpu" if torch.ones(1).is_meta else "meta"))


@pytest.mark.parametrize(
    ("make", "there", "expected"),
    [
        (lambda: torch.nn.Linear(2, 2), "is_cpu", True),
        (lambda: torch.nn.Linear(2, 2), "is_cuda", False),
        (lambda: torch.nn.Linear(2, 2, bias=False), "is_cpu", True),
        (Keeps, "is_cpu", False),
        (Elsewhere, "is_cpu", False),
        (Indexed, "is_cpu", False),
        (Buffered, "is_cuda", False),
    ],
)
def test_a_module_that_is_given_all_its_tensors_is_told_from_one_that_keeps_some(
    make: Any, there: str, expected: bool
) -> None:
    module, has_others_alone = without_data(make)()
    assert not has_others_alone(there)
    for name, parameter in torch.nn.Linear(2, 2).named_parameters():
        if getattr(module, name) is not None:
            setattr(module, name, parameter)
    assert has_others_alone(there) == expected
    assert module(torch.ones(3, 2)).shape == (3, 2)
