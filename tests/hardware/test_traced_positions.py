"""Indices that are tensors of one integer, from Python: what is written down is right at every position."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelswarm.hardware.sources.from_python import trace
from kernelswarm.hardware.sources.several_calls import trace_calls
from kernelswarm.schemas import ProblemError

SHAPE = (3, 4, 5, 6)


def into(index: Callable[[Any], Any], shape: tuple[int, ...], number: float | None = None) -> Any:
    """A function that writes numbers at an index, and inputs for it."""

    def write(x: Any, position: Any, value: Any) -> Any:
        x[index(position)] = value if number is None else number
        return x.sum(0)

    return write, [torch.randn(SHAPE), torch.tensor(1), torch.randn(shape)]


def added(x: Any, position: Any, value: Any) -> Any:
    x[position] += value
    return x.sum(0)


def read(index: Callable[[Any], Any]) -> Any:
    return lambda x, position: x[index(position)] * 2, [torch.randn(SHAPE), torch.tensor(1)]


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        read(lambda p: p),
        read(lambda p: (slice(None), p)),
        read(lambda p: (..., p)),
        read(lambda p: (slice(None), p, None, ..., p)),
        read(lambda p: (p, torch.tensor([0, 2]))),
        read(lambda p: ([0, 2], p.to(torch.int16))),
        into(lambda p: (slice(None), slice(None), p), (3, 4, 6)),
        into(lambda p: (slice(None), slice(None), p), (4, 1)),
        into(lambda p: (slice(None), slice(None), p), (6,), 2.0),
        into(lambda p: p.int(), (4, 5, 6)),
        into(lambda p: (..., p), (3, 4, 5)),
        into(lambda p: (..., p), (5,)),
        into(lambda p: (0, p), (5, 6)),
        into(lambda p: (None, slice(None), slice(None), p, slice(2, 4)), (1, 3, 4, 2)),
        into(lambda p: (..., p, slice(None)), (3, 4, 6)),
        into(lambda p: (slice(None), None, p), (3, 1, 5, 6)),
        into(lambda p: (slice(None), p, ...), (3, 5, 6)),
        (added, [torch.randn(SHAPE), torch.tensor(1), torch.randn(4, 5, 6)]),
    ],
)
def test_what_is_traced_at_one_position_is_right_at_others(function: Any, inputs: list[Any]) -> None:
    traced = trace(function, inputs)
    reference: dict[str, Any] = {}
    exec(traced.problem.source, reference)

    for place in (0, 1, 2, -1, -3):
        given = [torch.tensor(place), *(value.clone() for value in inputs if value.ndim)]
        arguments = [given[1], given[0], *given[2:]]
        ours = [value.clone() for value in arguments]
        assert torch.equal(reference["reference"](*ours, *traced.parameters), function(*arguments))
        assert all(map(torch.equal, ours, arguments)), "what it leaves in its inputs"


def test_a_position_is_drawn_below_the_least_size_that_it_indexes() -> None:
    def rows(x: Any, y: Any, position: Any) -> Any:
        return x[position] + y[:, position]

    source = trace(rows, [torch.randn(7, 3), torch.randn(3, 5), torch.tensor(2, dtype=torch.int32)]).problem.source

    assert "torch.randint(0, 5, (), generator=generator, dtype=torch.int32)" in source


@pytest.mark.parametrize(
    ("function", "position", "drawn"),
    [
        (lambda x, p: x[p] * 2, torch.tensor(1, dtype=torch.int8), "randint(0, 127"),
        (lambda x, p: x[p] + x[p + 1], torch.tensor(3), "randint(3, 4"),
    ],
)
def test_a_position_is_drawn_where_it_can_be(function: Any, position: torch.Tensor, drawn: str) -> None:
    assert drawn in trace(function, [torch.randn(1000, 3), position]).problem.source


def test_without_counts_of_writes_a_position_is_refused() -> None:
    with torch.inference_mode(), pytest.raises(ProblemError, match="makes Python numbers or conditions"):
        trace(lambda x, p: x[p] * 2, [torch.randn(4, 3), torch.tensor(1)])


def test_with_sizes_that_differ_a_position_stays_where_it_was() -> None:
    sizes = {"x": {0: torch.export.Dim("rows", min=4, max=16)}}
    traced = trace_calls(lambda x, position: x[position] * 2, [[torch.randn(8, 3), torch.tensor(2)]], (), sizes)

    assert "torch.randint(2, 3, (), generator=generator, dtype=torch.int64)" in traced.problem.source


def written_after(x: Any, position: Any) -> Any:
    row = x[position]
    x.add_(1)
    return row * 2


def written_through(x: Any, position: Any) -> Any:
    x[position].add_(1)
    return x * 2


def exchanged(x: Any, position: Any) -> Any:
    x[position], x[0 * position] = x[0 * position], x[position]
    return x * 2


def written_elsewhere(x: Any, position: Any) -> Any:
    row = x[position]
    row += 1
    x[0 * position] = row
    return x * 2


def written_back_and_read(x: Any, position: Any) -> Any:
    row = x[position]
    x[position] = row
    x.mul_(3)
    return row + 0


@pytest.mark.parametrize(
    "function", [written_after, written_through, exchanged, written_elsewhere, written_back_and_read]
)
def test_who_needs_a_view_at_a_position_is_refused(function: Any) -> None:
    with pytest.raises(ProblemError, match=r"reads a tensor at a position .* and writes to that tensor"):
        trace(function, [torch.randn(4, 3), torch.tensor(2)])


@pytest.mark.parametrize(
    "function",
    [lambda x, p: x[int(p)] * 2, lambda x, p: x[p : p + 1] * 2, lambda x, p: x * 2 if p else x],
)
def test_what_takes_its_number_out_is_still_refused(function: Any) -> None:
    with pytest.raises(ProblemError, match="makes Python numbers or conditions"):
        trace(function, [torch.randn(4, 3), torch.tensor(2)])
