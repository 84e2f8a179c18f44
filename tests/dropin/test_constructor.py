"""Which of what ``get_init_inputs()`` and ``get_inputs()`` return reaches a call by position, and which by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from kernelswarm.hardware.dropin.constructor import by_position, positional_and_named


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


def masked(x: Any, mask: Any = None, scale: float = 1.0, *, causal: bool = False) -> None: ...


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ([1, 2], [1, 2]),
        ((1,), [1]),
        ({"x": 1}, [1]),
        ({"mask": 2, "x": 1}, [1, 2]),
        ({"scale": 3.0, "x": 1}, [1, None, 3.0]),
    ],
)
def test_inputs_by_name_are_put_in_order_and_defaults_between_them_stand(drawn: Any, expected: list[Any]) -> None:
    assert by_position(masked, drawn) == expected


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ({"mask": 2}, r"cannot be passed by name \(missing a required argument: 'x'\)"),
        ({"x": 1, "y": 2}, "got an unexpected keyword argument 'y'"),
        ({"x": 1, "causal": True}, "a dictionary with causal, which is taken by name alone: leave"),
        ({1: 2}, "cannot be passed by name"),
        ({1}, "a set"),
    ],
)
def test_inputs_that_no_call_can_take_are_refused(drawn: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        by_position(masked, drawn)
