"""Input sets of a pool: one description for all where they are alike, one each where their sizes differ."""

import os

import pytest
import torch

from kernelswarm.hardware.harness.tensors.values import MappedFile, pack_sets, tensors_of, viewed

ROWS = (3, 7, 1, 5, 7)


def _drawn(rows: int, number: int) -> list[object]:
    return [torch.full((rows, 40), float(number)), rows, [torch.arange(rows)]]


def test_sets_that_are_alike_have_one_description() -> None:
    inputs, stride, taken, file = pack_sets([_drawn(4, number) for number in range(3)], alike=False)
    mapped = MappedFile(file, stride * 3)
    os.close(file)
    assert len(inputs) == 1 and taken == [0, 1, 2]
    assert [float(viewed(inputs[0], mapped, number * stride)[0].sum()) for number in range(3)] == [0, 160, 320]


@pytest.mark.parametrize("rows", [ROWS, ROWS[::-1]])
def test_sets_of_different_sizes_have_one_each(rows: tuple[int, ...]) -> None:
    draws = [_drawn(count, number + 1) for number, count in enumerate(rows)]
    inputs, stride, taken, file = pack_sets(draws, alike=False)
    mapped = MappedFile(file, stride * len(rows))
    os.close(file)
    assert taken == list(range(len(rows)))
    for number, (described, drawn) in enumerate(zip(inputs, draws, strict=True)):
        there = viewed(described, mapped, number * stride)
        assert there[1] == drawn[1]
        assert all(map(torch.equal, tensors_of(there), tensors_of(drawn)))


def test_nothing_of_another_set_lies_between_them() -> None:
    _, stride, taken, file = pack_sets([[torch.full((rows,), 1.0)] for rows in (100_000, 1, 50_000)], alike=False)
    data = [os.pread(file, stride, number * stride) for number in taken]
    os.close(file)
    assert [sum(map(bool, data[number][2::4])) for number in taken] == [100_000, 1, 50_000]


def test_those_that_are_not_like_the_first_can_be_left_out() -> None:
    inputs, stride, taken, file = pack_sets([_drawn(count, number) for number, count in enumerate(ROWS)], alike=True)
    size = os.fstat(file).st_size
    os.close(file)
    assert len(inputs) == 1 and taken == [0] and size == stride


def test_tensors_keep_their_file_mapped() -> None:
    inputs, _, _, file = pack_sets([_drawn(1000, 7)], alike=True)
    there = viewed(inputs[0], MappedFile(file, os.fstat(file).st_size))
    os.close(file)
    assert float(there[0].sum()) == 7 * 40_000 and torch.equal(there[2][0], torch.arange(1000))
