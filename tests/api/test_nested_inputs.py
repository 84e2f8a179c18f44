"""Lists, tuples and dictionaries among a call's inputs: rotary tables of attention, keyword arguments, encoders."""

import copy
from typing import Any

import pytest
import torch
from winning import ROWS, calls_of, optimized

import kernelswarm
from kernelswarm.api.searching import problem_of

ANGLES = torch.randn(4, 1)
TABLES = (ANGLES.cos(), ANGLES.sin())
KERNEL = "calls = 0\ndef kernel(x, t0, t1):\n    global calls\n    calls += 1\n    return x * t0 + x.flip(-1) * t1\n"


class Rotated(torch.nn.Module):
    """As layers of language models take them: a pair of tables by name, and further keyword arguments."""

    def forward(
        self, x: torch.Tensor, tables: Any = None, grid: tuple[int, int] = (2, 2), **further: Any
    ) -> torch.Tensor:
        tables = tables or further["tables_of"]
        cos, sin = tables.values() if isinstance(tables, dict) else tables
        return (x * cos + x.flip(-1) * sin) * (grid[0] / 2)


def test_a_pair_of_tensors_is_an_input_in_a_model() -> None:
    model = torch.nn.Sequential(Rotated())
    result = optimized(model[0], [ROWS, TABLES], KERNEL)
    kernelswarm.apply(model, result, where="0")
    before = calls_of(result)
    module, expected = model[0], Rotated()(ROWS, TABLES)
    for made in (
        module(ROWS, TABLES),
        module(ROWS, tables=TABLES),
        module(ROWS, TABLES, grid=(2, 2)),
        copy.deepcopy(model)[0](ROWS, TABLES),
    ):
        assert torch.allclose(made, expected)
    assert calls_of(result) == before + 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((ROWS, list(TABLES)), {}),
        ((ROWS, dict(enumerate(TABLES))), {}),
        ((ROWS, TABLES, (4, 2)), {}),
        ((ROWS, (TABLES[0], 2.0)), {}),
        ((ROWS,), {"tables_of": TABLES}),
        ((ROWS, TABLES), {"more": 1}),
    ],
)
def test_another_structure_is_another_call(arguments: Any, named: Any) -> None:
    result = optimized(Rotated(), [ROWS, TABLES], KERNEL)
    assert torch.equal(result.best(*arguments, **named), Rotated()(*arguments, **named))
    assert calls_of(result) == 0


@pytest.mark.parametrize("key", ["tables", "tables_of"])
@pytest.mark.parametrize("tables", [TABLES, list(TABLES), dict(zip("cs", TABLES, strict=True))])
def test_containers_and_keyword_arguments_are_given_by_name(key: str, tables: Any) -> None:
    inputs = {"x": ROWS, key: tables}
    result = optimized(Rotated(), inputs, KERNEL)
    assert torch.allclose(result.best(**inputs), Rotated()(**inputs))
    assert calls_of(result) == 1


def test_several_calls_may_hold_pairs() -> None:
    rows = torch.randn(9, 8)
    angles = torch.randn(9, 1)
    source = problem_of(Rotated(), [[ROWS, TABLES], [rows, (angles.cos(), angles.sin())]]).problem.source
    assert "4x8" in source and "9x8" in source


def test_names_of_leaves_are_nobodys() -> None:
    def operator(pair: Any, pair_0: torch.Tensor, *rest: Any) -> torch.Tensor:
        return pair[0] - pair[1] * pair_0 + rest[0] + rest[1][0]

    inputs = [(ROWS, ROWS * 3), ROWS * 2, 1.0, [ROWS]]
    module: dict[str, Any] = {}
    exec(problem_of(operator, [*inputs]).problem.source, module)
    assert torch.equal(module["reference"](*inputs[0], inputs[1], ROWS), operator(*inputs))


def test_what_a_call_writes_into_a_container_and_what_is_no_tensor_is_named() -> None:
    def caching(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        cache.append(x)
        return x * 2

    with pytest.raises(kernelswarm.InputError, match="caching cannot be traced: a call puts something into a list"):
        problem_of(caching, {"x": ROWS, "cache": []})
    with pytest.raises(kernelswarm.InputError, match="input 'tables_0' is a str: give tensors, numbers, None, and "):
        problem_of(Rotated(), [ROWS, ("cos", TABLES[1])])
