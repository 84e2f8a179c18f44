"""Writes into a part of an input or a buffer happen in its memory: caches of a decoder, and what is like them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.codegen.lowering.part_writes import WRITTEN
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.hardware.machine.work import count_work

HEADS, LENGTH, WIDTH = 4, 512, 64


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where candidates and their libraries lie."""
    path = tmp_path_factory.mktemp("writes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path))
        yield path


def row_at_a_number(cache: Any, row: Any) -> Any:
    cache[:, :, 7] = row[:, :, 0] * 2
    return cache.sum(-1)


def last_row(cache: Any, row: Any) -> Any:
    cache[:, :, -1:] = row
    return F.relu(cache)


def rows_at(cache: Any, row: Any, places: Any) -> Any:
    cache.index_copy_(2, places, row.exp())
    return cache.sum(-2)


def rows_at_and_returned(cache: Any, row: Any, places: Any) -> Any:
    cache[:, :, places] = row
    return cache, row + 1


def row_at_a_size(cache: Any, row: Any, place: int) -> Any:
    cache[:, :, place : place + 1] = row
    return cache.amax(-1)


def one_of_two(cache: Any, row: Any, places: Any) -> Any:
    """Keys and values in one tensor."""
    cache[0].index_copy_(1, places, row[0] + 1)
    return cache.mean(-1)


def one_of_two_at_a_number(cache: Any, row: Any) -> Any:
    cache[1, :, 9] = row[1, :, 0].sigmoid()
    return cache * 2


def row_at_a_position(cache: Any, row: Any, place: Any) -> Any:
    """The position is a tensor of one integer, as models keep it on the device."""
    cache[:, :, place] = row[:, :, 0].exp()
    return cache.sum(-2)


def caches(dtype: torch.dtype = torch.float32, length: int = LENGTH) -> list[Any]:
    return [torch.randn(2, HEADS, size, WIDTH).to(dtype) for size in (length, 1)]


def with_places(*places: int, length: int = LENGTH) -> Callable[[], list[Any]]:
    index = torch.tensor(places)
    sizes = (length, len(places))
    return lambda: [*(torch.randn(2, HEADS, size, WIDTH) for size in sizes), index]


def with_position(place: int, length: int = LENGTH) -> Callable[[], list[Any]]:
    return lambda: [*caches(length=length), torch.tensor(place)]


INSIDE: dict[str, tuple[Any, list[Callable[[], list[Any]]]]] = {
    "row_at_a_number": (row_at_a_number, [caches, lambda: caches(length=300)]),
    "last_row": (last_row, [caches, lambda: caches(length=400)]),
    "rows_at": (rows_at, [with_places(3, 500, 9), with_places(0), with_places(8, 1, length=77)]),
    "rows_at_and_returned": (rows_at_and_returned, [with_places(3, -1), with_places(0, 5)]),
    "row_at_a_size": (row_at_a_size, [lambda: [*caches(), 5], lambda: [*caches(), 200]]),
    "row_at_a_position": (row_at_a_position, [with_position(7), with_position(-2), with_position(0, length=77)]),
    "one_of_two": (one_of_two, [with_places(3, 500), with_places(1, 0)]),
    "one_of_two_at_a_number": (one_of_two_at_a_number, [caches, lambda: caches(length=333)]),
    "half": (rows_at_and_returned, [lambda: [*caches(torch.bfloat16), torch.tensor([5])]]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_part_is_written_where_it_belongs(name: str, folder: Path) -> None:
    function, makers = INSIDE[name]
    pair = Pair(function, makers[0](), "cpp", folder / f"{name}.py")

    plan = plan_of(pair.graph, Settings())
    assert WRITTEN in {node.target for node in plan.externs}
    kernel = pair.source.partition("\ndef kernel(")[2]
    assert "cache.copy_(" not in kernel and "scatter.default(" not in kernel
    for maker in makers:
        pair.call(maker)


@pytest.mark.parametrize("name", ["rows_at", "row_at_a_number", "one_of_two_at_a_number"])
def test_caches_may_lie_anywhere(name: str, folder: Path) -> None:
    function, makers = INSIDE[name]
    pair = Pair(function, makers[0](), "cpp", folder / f"{name}_strided.py")

    def strided() -> list[Any]:
        cache, *others = makers[0]()
        return [cache.transpose(1, 2).contiguous().transpose(1, 2), *others]

    def inside() -> list[Any]:
        cache, *others = makers[0]()
        return [F.pad(cache, (3, 5, 1, 0))[:, :, 1:, 3:-5], *others]

    pair.call(strided)
    pair.call(inside)


def reads_before(cache: Any, row: Any, places: Any) -> Any:
    before = cache.sum(-1)
    cache.index_copy_(2, places, row)
    return before, cache.sum(-1)


def returns_before(cache: Any, row: Any, places: Any) -> Any:
    before = cache.clone()
    cache.index_copy_(2, places, row)
    return before


def writes_what_it_reads(cache: Any, row: Any, places: Any) -> Any:
    cache.index_copy_(2, places, cache[:, :, 3:4] + row)
    return cache.sum(-1)


def adds(cache: Any, row: Any, places: Any) -> Any:
    cache.index_put_((places * 0,), row[0], accumulate=True)
    return cache.sum(-1)


def swaps(cache: Any, row: Any, places: Any) -> Any:
    cache[0], cache[1] = cache[1].clone(), cache[0].clone()
    return cache.sum(-1) + row.sum(-1)


@pytest.mark.parametrize("function", [reads_before, returns_before, writes_what_it_reads, adds, swaps])
def test_what_needs_the_old_values_gets_them(function: Any, folder: Path) -> None:
    maker = with_places(5)
    pair = Pair(function, maker(), "cpp", folder / f"{function.__name__}.py")

    assert WRITTEN not in {node.target for node in plan_of(pair.graph, Settings()).externs}
    pair.call(maker)


def test_several_writes_of_a_step(folder: Path) -> None:
    def twice(cache: Any, row: Any, places: Any) -> Any:
        cache[:, :, 3] = row[:, :, 0]
        cache.index_copy_(2, places, row * 2)
        return cache.sum(-1)

    pair = Pair(twice, with_places(5)(), "cpp", folder / "twice.py")
    pair.call(with_places(3))
    pair.call(with_places(9))


@pytest.mark.parametrize("place", [LENGTH, -LENGTH - 1])
def test_a_place_outside_is_an_error_as_ever(place: int, folder: Path) -> None:
    pair = Pair(rows_at, with_places(5)(), "cpp", folder / "outside.py")
    given = with_places(place)()
    before = given[0].clone()

    with pytest.raises(IndexError):
        rows_at(*[tensor.clone() for tensor in given])
    with pytest.raises(IndexError):
        pair.kernel(*given)
    assert torch.equal(given[0], before)


def test_memory_that_cannot_be_written_is_refused_as_ever(folder: Path) -> None:
    pair = Pair(rows_at, with_places(5)(), "cpp", folder / "expanded.py")
    cache, row, places = with_places(5)()

    with pytest.raises(RuntimeError):
        pair.kernel(cache[:1].expand(2, -1, -1, -1), row, places)


def test_autograd_sees_the_write(folder: Path) -> None:
    pair = Pair(rows_at_and_returned, with_places(5)(), "cpp", folder / "version.py")
    cache, row, places = with_places(5)()
    weight = torch.randn_like(cache, requires_grad=True)
    product = (weight * cache).sum()
    pair.kernel(cache, row, places)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


class Decoder(torch.nn.Module):
    """Attention of one token over all that came before."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.groups = groups
        self.register_buffer("keys", torch.randn(1, HEADS, LENGTH, WIDTH))
        self.register_buffer("values", torch.randn(1, HEADS, LENGTH, WIDTH))

    def forward(self, q: Any, k: Any, v: Any, place: Any) -> Any:
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = torch.arange(LENGTH) <= place
        k, v = (x.repeat_interleave(self.groups, 1) for x in (self.keys, self.values))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen[None])


@pytest.mark.parametrize("groups", [1, 3])
def test_a_decoder_copies_no_cache(groups: int, folder: Path) -> None:
    def maker(place: int = 300) -> list[Any]:
        rows = [torch.randn(1, HEADS * heads, 1, WIDTH) for heads in (groups, 1, 1)]
        return [*rows, torch.tensor([place])]

    pair = Pair(Decoder(groups), maker(), "cpp", folder / f"decoder{groups}.py")
    plan = plan_of(pair.graph, Settings())

    assert [kernel.kind for kernel in plan.kernels if hasattr(kernel, "kind")] == ["attention"]
    assert {node.target for node in plan.externs} == {WRITTEN}
    for place in (300, 0, LENGTH - 1):
        pair.call(lambda at=place: maker(at))  # type: ignore[misc]


def test_only_new_rows_are_counted_as_written() -> None:
    graph = capture(rows_at, with_places(5, 6)())
    cache, rows = 2 * HEADS * LENGTH * WIDTH * 4, 2 * HEADS * 2 * WIDTH * 4
    work = count_work(graph)

    assert work.write_bytes == rows + cache // LENGTH
    assert work.read_bytes == cache + rows + 16


def test_a_cache_that_is_only_written_is_not_counted_as_read() -> None:
    graph = capture(lambda cache, row, places: cache.index_copy_(2, places, row), with_places(5, 6)())
    rows = 2 * HEADS * 2 * WIDTH * 4

    assert count_work(graph).read_bytes == rows + 16
