"""Which of what ``get_init_inputs()`` returns reaches a constructor by position, and which by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from kernelswarm.hardware.dropin.constructor import positional_and_named


def width_and_hidden(width: int, hidden: int = 8, *, bias: bool = True) -> None: ...


def with_options(width: int, options: dict[str, Any] | None = None) -> None: ...


def configured(config: dict[str, Any]) -> None: ...


def layered(layers: list[int], bias: bool = True) -> None: ...


def passing_on(*arguments: Any, **named: Any) -> None: ...


def only_by_position(width: int, /, options: Any = None) -> None: ...


CASES: list[tuple[Callable[..., Any], Any, tuple[list[Any], dict[str, Any]]]] = [
    (width_and_hidden, [4, 2], ([4, 2], {})),
    (width_and_hidden, (4,), ([4], {})),
    (width_and_hidden, {"width": 4}, ([], {"width": 4})),
    (width_and_hidden, [4, {"hidden": 2}], ([4], {"hidden": 2})),
    (width_and_hidden, [4, 2, {"bias": False}], ([4, 2], {"bias": False})),
    (width_and_hidden, [{"width": 4, "bias": False}], ([], {"width": 4, "bias": False})),
    (width_and_hidden, [[], {"width": 4}], ([], {"width": 4})),
    (width_and_hidden, [[4, 2], {"bias": False}], ([4, 2], {"bias": False})),
    (width_and_hidden, [4, {}], ([4, {}], {})),
    (width_and_hidden, [{"width": 4, "depth": 3}], ([{"width": 4, "depth": 3}], {})),
    (with_options, [4, {"hidden": 2}], ([4, {"hidden": 2}], {})),
    (with_options, [4, {"options": {"hidden": 2}}], ([4], {"options": {"hidden": 2}})),
    (with_options, [4, {1: 2}], ([4, {1: 2}], {})),
    (configured, [{"layers": 4}], ([{"layers": 4}], {})),
    (layered, [[64, 128], {"bias": False}], ([[64, 128]], {"bias": False})),
    (layered, [[64, 128]], ([[64, 128]], {})),
    (passing_on, [4, {"hidden": 2}], ([4], {"hidden": 2})),
    (passing_on, [[4], {"hidden": 2}], ([4], {"hidden": 2})),
    (only_by_position, [3, {"width": 4}], ([3, {"width": 4}], {})),
    (list, [], ([], {})),
    (nn.Conv2d, [[], {"in_channels": 3, "out_channels": 4, "kernel_size": 3}], None),
    (nn.MultiheadAttention, [16, {"num_heads": 4, "batch_first": True}], None),
    (nn.TransformerEncoderLayer, {"d_model": 16, "nhead": 4, "dropout": 0.0}, None),
]


@pytest.mark.parametrize(("make", "returned", "expected"), CASES)
def test_a_dictionary_names_arguments_where_the_constructor_takes_them(
    make: Callable[..., Any], returned: Any, expected: tuple[list[Any], dict[str, Any]] | None
) -> None:
    positional, named = positional_and_named(make, returned)

    if expected is None:
        assert isinstance(make(*positional, **named), nn.Module)
    else:
        assert (positional, named) == expected


def test_a_tensor_is_one_argument_and_a_number_is_refused() -> None:
    weight = torch.ones(3)
    (argument,), named = positional_and_named(passing_on, weight)
    assert argument is weight and named == {}
    with pytest.raises(TypeError, match="a int"):
        positional_and_named(passing_on, 3)
