"""Indices that are tensors of one integer: what is captured with one position is right at all of them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair
from torch import nn

from kernelswarm.hardware.capture.capture import capture
from kernelswarm.hardware.capture.positions import views_at_positions
from kernelswarm.schemas import ProblemError

SHAPE = (3, 4, 5, 6)
ITEMS: tuple[Callable[[random.Random], Any], ...] = (
    lambda draw: torch.tensor(draw.randint(-3, 2)),
    lambda draw: torch.tensor(draw.randint(0, 2), dtype=torch.int32),
    lambda draw: draw.randint(0, 2),
    lambda draw: slice(draw.choice((None, 1)), None, draw.choice((None, 2))),
    lambda draw: None,
    lambda draw: Ellipsis,
    lambda draw: torch.tensor([0, 2]),
    lambda draw: [1, 0],
    lambda draw: torch.tensor(True),
)


def outcome(work: Callable[[], Any]) -> Any:
    """What it gives, or the type of what it raises."""
    try:
        return work()
    except (IndexError, RuntimeError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("seed", range(20))
def test_indices_mean_what_they_mean_in_pytorch(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(50):
        index = tuple(draw.choice(ITEMS)(draw) for _ in range(draw.randint(1, 5)))
        if index.count(Ellipsis) > 1:
            continue
        source, value = torch.randn(SHAPE), torch.randn(SHAPE)

        def read(source: Any = source, index: Any = index) -> Any:
            return source[index]

        def written(source: Any = source, index: Any = index, value: Any = value) -> Any:
            copy = source.clone()
            copy[index] = value[index]
            return copy

        want = outcome(read), outcome(written)
        with views_at_positions():
            got = outcome(read), outcome(written)
        for expected, actual in zip(want, got, strict=True):
            if isinstance(expected, torch.Tensor):
                assert isinstance(actual, torch.Tensor) and torch.equal(expected, actual), index
            else:
                assert isinstance(actual, type), index


def decode(keys: Any, query: Any, place: Any) -> Any:
    return F.softmax(query @ keys.transpose(-1, -2), -1)[..., place] * keys[:, place, 0]


def table(rotations: Any, x: Any, place: Any) -> Any:
    return x * rotations[place] + x.roll(1, -1) * rotations[place - 1]


def with_position(*shapes: tuple[int, ...]) -> Callable[[int], list[Any]]:
    return lambda place: [*(torch.randn(shape) for shape in shapes), torch.tensor(place)]


READ = {
    decode: with_position((2, 12, 8), (2, 1, 8)),
    table: with_position((12, 64), (3, 64)),
}


class Ring(nn.Module):
    """Writes through a view of a row, and counts in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3))
        self.register_buffer("place", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        row = self.rows[self.place]
        row.mul_(0.5).add_(x)
        self.place.copy_((self.place + 1) % 4)
        return self.rows.mean(0), row + 1


def read_before_it_is_written(x: Any, place: Any) -> Any:
    y = x.clone()
    row = y[place]
    y.mul_(2)
    return row + y[place - 1]


def exchanged(x: Any, place: Any) -> Any:
    y = x.clone()
    y[place], y[place - 1] = y[place - 1], y[place]
    return y


def behind_a_size(x: Any, place: Any) -> Any:
    y = x.clone()
    y[x.shape[0] - 1, place] = x[0, 0]
    y[True, place].mul_(3)
    torch.add(y[0], 1, out=y[place])
    return y * 2


def short_integers(x: Any, place: Any) -> Any:
    return x[place.to(torch.int16)][:, 0] * x[place.to(torch.int32), :, place]


WRITE = (read_before_it_is_written, exchanged, behind_a_size, short_integers)


@pytest.mark.parametrize("function", WRITE, ids=lambda function: function.__name__)
def test_views_at_positions_are_views(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    maker = with_position((5, 4, 5))
    pair = Pair(function, maker(2), "cpp", tmp_path / "candidate.py")

    for place in (2, 3, 0, -1):
        pair.call(lambda place=place: maker(place))  # type: ignore[misc]


def parts_of_unknown_sizes(x: Any, place: Any) -> Any:
    first, rest = x.split([place.item(), 5 - place.item()])
    return first.sum(0) + rest.sum(0) * x.select(0, place.item())


def test_nothing_is_read_outside_at_a_number_that_only_the_call_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    maker = with_position((5, 4, 5))
    pair = Pair(parts_of_unknown_sizes, maker(2), "cpp", tmp_path / "candidate.py")

    for place in (2, 3, 0):
        pair.call(lambda place=place: maker(place))  # type: ignore[misc]
    for place in (-1, 9):
        with pytest.raises((RuntimeError, IndexError)):
            pair.kernel(*maker(place))


def test_what_is_written_through_a_view_of_a_buffer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = Pair(Ring(), [torch.randn(3)], "cpp", tmp_path / "candidate.py")

    for _ in range(6):
        pair.call(lambda: [torch.randn(3)])


@pytest.mark.parametrize("function", READ, ids=lambda function: function.__name__)
def test_a_candidate_is_right_at_every_position(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = Pair(function, READ[function](5), "cpp", tmp_path / "candidate.py")

    for place in (0, 5, 11, -1):
        pair.call(lambda place=place: READ[function](place))  # type: ignore[misc]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, place: x * int(place),
        lambda x, place: x * bool(place),
        lambda x, place: x * 2 if place else x,
        lambda x, place: x[: int(place)] * 2,
    ],
)
def test_what_takes_its_number_out_is_refused(function: Any) -> None:
    with pytest.raises(ProblemError, match="makes Python numbers or conditions of its tensors' values"):
        capture(function, [torch.randn(8, 4), torch.tensor(5)])
