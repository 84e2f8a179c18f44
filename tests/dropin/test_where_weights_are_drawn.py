"""Weights are drawn on the device, where a module can be made there and is what it would be in main memory."""

from typing import Any

import pytest
import torch

from kernelswarm.hardware.dropin.constructor import lacks_data, made_on, without_data

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


def test_a_module_for_weights_of_another_one_has_sizes_alone() -> None:
    linear, other = without_data(torch.nn.Linear)(3, 4), torch.nn.Linear(3, 4)
    assert lacks_data(linear)
    for name, parameter in other.named_parameters():
        setattr(linear, name, parameter)
    assert not lacks_data(linear)
    torch.testing.assert_close(linear(torch.ones(2, 3)), other(torch.ones(2, 3)))


def test_what_a_module_keeps_beside_is_seen_to_lack_data() -> None:
    module = without_data(Keeps)()
    for name, parameter in torch.nn.Linear(2, 2).named_parameters():
        setattr(module, name, parameter)
    assert lacks_data(module)
